import { type TailDemand } from './follow-message.js'
import { type TailDemandSink } from './follower.js'

// The reading process needs to know only that latest reads still come.
const demandEveryMs = 1000
const urgentEveryMs = 20

/** Sends the demand of this process to the one that reads the tail. */
export class TailDemandSender implements TailDemandSink {
  readonly #send: (demand: TailDemand) => void
  readonly #now: () => number
  #saved = 0
  #sentAtMs = -Infinity
  #urgentAtMs = -Infinity

  constructor (send: (demand: TailDemand) => void, now: () => number) {
    this.#send = send
    this.#now = now
  }

  recordRead (): void {
    if (this.#now() - this.#sentAtMs >= demandEveryMs) this.#demand(false)
  }

  recordSaved (): void {
    this.#saved++
  }

  wake (): void {
    if (this.#now() - this.#urgentAtMs < urgentEveryMs) return
    this.#urgentAtMs = this.#now()
    this.#demand(true)
  }

  #demand (isUrgent: boolean): void {
    const saved = this.#saved
    this.#saved = 0
    this.#sentAtMs = this.#now()
    this.#send({ saved, isUrgent })
  }
}

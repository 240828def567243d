import { type FollowState, type FollowUpdate, type TailDriver } from './follower.js'

/** Message of the process that reads the tail to the other processes of this varve. */
export type FollowEvent =
  | { readonly kind: 'update', readonly update: FollowUpdate }
  | { readonly kind: 'state', readonly state: Exclude<FollowState, 'following'>, readonly reason: string | undefined }
  | { readonly kind: 'clear' }

/** Need of a process for the tail that another one reads. */
export interface FollowDemand {
  /** Reads that needed no upstream request since the last demand. */
  readonly saved: number
  /** True if a read waits for the tail. */
  readonly isUrgent: boolean
}

// The reading process needs to know only that latest reads still come.
const demandEveryMs = 1000
const urgentEveryMs = 20

/** Tail that another process reads. */
export class RemoteTail implements TailDriver {
  readonly #send: (demand: FollowDemand) => void
  readonly #now: () => number
  #saved = 0
  #sentAtMs = -Infinity
  #urgentAtMs = -Infinity

  constructor (send: (demand: FollowDemand) => void, now: () => number) {
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

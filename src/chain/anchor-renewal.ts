import { type Position } from '../api/position.js'
import { type AnchoredChain } from './anchored-chain.js'

const renewEveryMs = 10_000
// A new process has little to lose yet: anchors that other replicas published already identify their generations.
const firstRenewalMs = 2000
// A failed read often succeeds soon after.
const retryMs = 1000

/** Schedules the reading of new anchors: 2 s after an upstream is verified, then every 10 s. */
export class AnchorRenewal {
  readonly #identity: AnchoredChain
  readonly #now: () => number
  #dueAtMs: number | undefined

  constructor (identity: AnchoredChain, now: () => number) {
    this.#identity = identity
    this.#now = now
  }

  /** Starts the schedule once an upstream of the chain is verified. */
  schedule (): void {
    this.#dueAtMs ??= this.#now() + firstRenewalMs
  }

  /** Stops the schedule on a chain reset, until an upstream of the new chain is verified. */
  cancel (): void {
    this.#dueAtMs = undefined
  }

  /** Reads the newest final block as an anchor when one is due; retries after 1 s where a read failed. */
  async renewIfDue (position: Position): Promise<void> {
    if (this.#dueAtMs === undefined || this.#now() < this.#dueAtMs) return
    this.#dueAtMs = this.#now() + renewEveryMs
    if (!await this.#identity.readAnchors(position) && this.#dueAtMs !== undefined) {
      this.#dueAtMs = this.#now() + retryMs
    }
  }
}

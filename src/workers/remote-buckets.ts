import { type Allowance, type Buckets } from '../clients/buckets.js'
import { within } from '../within.js'

/** Tells the primary process to take one for a client, or to give one back. */
export interface PrimaryBuckets {
  take(id: number, subject: string, allowance: Allowance): void
  giveBack(subject: string, allowance: Allowance): void
}

// The primary process has little else to do; while it hangs, each worker counts for itself.
const answerMs = 250

/**
 * In a worker: what clients take is counted by the primary process for all, so that a limit is one wherever connections
 * were led.
 */
export class RemoteBuckets implements Buckets {
  readonly #primary: PrimaryBuckets
  readonly #alone: Buckets
  readonly #waiting = new Map<number, (waitMs: number) => void>()
  #asked = 0

  constructor (primary: PrimaryBuckets, alone: Buckets) {
    this.#primary = primary
    this.#alone = alone
  }

  async take (subject: string, allowance: Allowance): Promise<number> {
    const id = ++this.#asked
    const told = new Promise<number>(resolve => {
      this.#waiting.set(id, resolve)
    })
    this.#primary.take(id, subject, allowance)
    const waitMs = await within(answerMs, told)
    this.#waiting.delete(id)
    return waitMs ?? await this.#alone.take(subject, allowance)
  }

  giveBack (subject: string, allowance: Allowance): void {
    this.#primary.giveBack(subject, allowance)
  }

  /** What the primary process answers. */
  hear (id: number, waitMs: number): void {
    this.#waiting.get(id)?.(waitMs)
  }
}

import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { withTimeout } from '../with-timeout.js'

/** Sends a worker's token requests to the primary process. */
export interface PrimaryBucketSender {
  take(id: number, clientId: string, allowance: ClientRateLimit): void
  refund(clientId: string, allowance: ClientRateLimit): void
}

// The primary process normally responds at once; while it hangs, each worker counts alone.
const takeTimeoutMs = 250

/** Counts client limits in the primary process, so one limit holds across all workers. */
export class RemoteBuckets implements TokenBuckets {
  readonly #primary: PrimaryBucketSender
  readonly #fallback: TokenBuckets
  readonly #pending = new Map<number, (waitMs: number) => void>()
  #lastId = 0

  constructor (primary: PrimaryBucketSender, fallback: TokenBuckets) {
    this.#primary = primary
    this.#fallback = fallback
  }

  async take (clientId: string, allowance: ClientRateLimit): Promise<number> {
    const id = ++this.#lastId
    const result = new Promise<number>(resolve => {
      this.#pending.set(id, resolve)
    })
    this.#primary.take(id, clientId, allowance)
    const waitMs = await withTimeout(takeTimeoutMs, result)
    this.#pending.delete(id)
    return waitMs ?? await this.#fallback.take(clientId, allowance)
  }

  refund (clientId: string, allowance: ClientRateLimit): void {
    this.#primary.refund(clientId, allowance)
  }

  /** Resolves the request that this result belongs to. */
  onTakeResult (id: number, waitMs: number): void {
    this.#pending.get(id)?.(waitMs)
  }
}

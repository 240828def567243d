import { TokenBucket, type TokenRate } from '../token-bucket.js'

/** Rate limit of a client: a sustained rate, and a burst after idle time. */
export interface ClientRateLimit {
  readonly perSecond: number
  readonly burst: number
}

/** Token buckets of clients, and of upstreams whose rates processes share. */
export interface TokenBuckets {
  /** Takes tokens and returns 0; if too few are free, takes none and returns the milliseconds until enough are. */
  take(clientId: string, allowance: ClientRateLimit, count?: number): number | Promise<number>
  /** Takes a token without waiting; only buckets of this process can. */
  takeNow?(clientId: string, allowance: ClientRateLimit): number
  /** Lowers the tokens to `atMost` if there are more, and returns how many there are. */
  level(clientId: string, allowance: ClientRateLimit, atMost?: number): number | Promise<number>
  /** Returns a token for a request that turned out to be free. */
  refund(clientId: string, allowance: ClientRateLimit): void
}

/** Buckets that cannot be reached, so that a caller falls back to a limit of its own. */
export const noBuckets: TokenBuckets = {
  take: unreachable,
  level: unreachable,
  refund: () => {}
}

async function unreachable (): Promise<number> {
  return await Promise.reject(new Error('no buckets can be reached'))
}

// Bounds memory to some 10 MB (law 10: nothing grows without bound); the least recent client is dropped and starts with
// a full burst.
const maxClients = 50_000

/** Token buckets of this process, on a monotonic clock. */
export class LocalBuckets implements TokenBuckets {
  readonly #now: () => number
  // The most recent client is last.
  readonly #buckets = new Map<string, TokenBucket>()

  constructor (now: () => number) {
    this.#now = now
  }

  take (clientId: string, allowance: ClientRateLimit, count = 1): number {
    return this.takeNow(clientId, allowance, count)
  }

  takeNow (clientId: string, allowance: ClientRateLimit, count = 1): number {
    return this.#bucketOf(clientId).take(this.#now(), tokenRateOf(allowance), count)
  }

  level (clientId: string, allowance: ClientRateLimit, atMost?: number): number {
    return this.#bucketOf(clientId).level(this.#now(), tokenRateOf(allowance), atMost)
  }

  refund (clientId: string, allowance: ClientRateLimit): void {
    this.#buckets.get(clientId)?.refund(tokenRateOf(allowance))
  }

  #bucketOf (clientId: string): TokenBucket {
    const bucket = this.#buckets.get(clientId) ?? new TokenBucket()
    this.#buckets.delete(clientId)
    this.#buckets.set(clientId, bucket)
    for (const leastRecent of this.#buckets.keys()) {
      if (this.#buckets.size <= maxClients) break
      this.#buckets.delete(leastRecent)
    }
    return bucket
  }
}

function tokenRateOf ({ perSecond, burst }: ClientRateLimit): TokenRate {
  return { interval: 1000 / perSecond, burst }
}

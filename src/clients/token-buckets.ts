/** Rate limit of a client: a sustained rate, and a burst after idle time. */
export interface ClientRateLimit {
  readonly perSecond: number
  readonly burst: number
}

/** Token buckets of clients. */
export interface TokenBuckets {
  /** Takes a token: 0 on success, else milliseconds until one is free, with nothing taken. */
  take(clientId: string, allowance: ClientRateLimit): number | Promise<number>
  /** Returns a token for a request that turned out to be free. */
  refund(clientId: string, allowance: ClientRateLimit): void
}

// Bounds memory to some 10 MB (law 10: nothing grows without bound); the least recent client is dropped and starts with
// a full burst.
const maxClients = 50_000
// Absorbs rounding of the clock.
const negligibleMs = 0.001

/** Token buckets of this process, on a monotonic clock. */
export class LocalBuckets implements TokenBuckets {
  readonly #now: () => number
  // Time at which each client's bucket is full again; the most recent client is last.
  readonly #fullAtMs = new Map<string, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  take (clientId: string, { perSecond, burst }: ClientRateLimit): number {
    const nowMs = this.#now()
    const tokenIntervalMs = 1000 / perSecond
    const storedMs = this.#fullAtMs.get(clientId) ?? nowMs
    // Ignores a time beyond a whole burst: it was stored under another limit.
    const fullAtMs = storedMs >= nowMs && storedMs <= nowMs + burst * tokenIntervalMs + negligibleMs ? storedMs : nowMs
    const waitMs = fullAtMs + tokenIntervalMs - nowMs - burst * tokenIntervalMs
    const isTaken = waitMs <= negligibleMs
    this.#setFullAt(clientId, isTaken ? fullAtMs + tokenIntervalMs : fullAtMs)
    return isTaken ? 0 : waitMs
  }

  refund (clientId: string, { perSecond }: ClientRateLimit): void {
    const fullAtMs = this.#fullAtMs.get(clientId)
    if (fullAtMs !== undefined) this.#setFullAt(clientId, fullAtMs - 1000 / perSecond)
  }

  #setFullAt (clientId: string, fullAtMs: number): void {
    this.#fullAtMs.delete(clientId)
    this.#fullAtMs.set(clientId, fullAtMs)
    if (this.#fullAtMs.size <= maxClients) return
    const [leastRecent] = this.#fullAtMs.keys()
    if (leastRecent !== undefined) this.#fullAtMs.delete(leastRecent)
  }
}

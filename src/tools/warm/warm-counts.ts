import { type ProxyResponse, headerValueIn } from './proxy-response.js'

/** Counts the outcomes of a run. */
export class WarmCounts {
  /** Responses that were already cached. */
  hits = 0
  /** Responses fetched from an upstream and stored. */
  stored = 0
  /** Responses not stored, by reason. */
  readonly notStored = new Map<string, number>()
  /** Error responses by status. */
  readonly failed = new Map<number, number>()
  /** Requests repeated after overload or connection failures. */
  retries = 0
  /** Bytes of all response bodies. */
  bytes = 0

  /** Number of error responses. */
  get failures (): number {
    return sumOf(this.failed)
  }

  /** Counts a response by its status and Cache-Status (RFC 9211). */
  count (response: ProxyResponse): void {
    const { status, body } = response
    const cacheStatus = headerValueIn(response, 'cache-status')
    this.bytes += body.length
    if (status >= 400) increment(this.failed, status)
    else if (cacheStatus === undefined) increment(this.notStored, 'no varve there')
    else if (/; hit\b/.test(cacheStatus)) this.hits++
    // A collapsed response shares a fetch whose first request stores it.
    else if (/; (?:stored|collapsed)\b/.test(cacheStatus)) this.stored++
    else increment(this.notStored, /; detail=(\w+)/.exec(cacheStatus)?.[1] ?? 'moving')
  }
}

function increment<K> (counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function sumOf (counts: Map<unknown, number>): number {
  let sum = 0
  for (const count of counts.values()) sum += count
  return sum
}

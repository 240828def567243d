import { formatBytes, formatCount, formatDuration, groupDigits } from '../format.js'
import { headerValueIn, type ProxyResponse } from './warm-client.js'

const barLength = 20

/** Counts the outcomes of a run, and prints them. */
export class WarmCounts {
  reads = 0
  #hits = 0
  #stored = 0
  #retries = 0
  #bytes = 0
  // By reason, and by status.
  readonly #notStored = new Map<string, number>()
  readonly #failed = new Map<number, number>()

  get hasFailures (): boolean {
    return this.#failed.size > 0
  }

  /** Counts a request repeated after overload or a connection failure. */
  countRetry (): void {
    this.#retries++
  }

  /** Counts a response by its status and Cache-Status (RFC 9211). */
  count (response: ProxyResponse): void {
    const { status, body } = response
    const cacheStatus = headerValueIn(response, 'cache-status')
    this.reads++
    this.#bytes += body.length
    if (status >= 400) increment(this.#failed, status)
    else if (cacheStatus === undefined) increment(this.#notStored, 'no varve there')
    else if (/; hit\b/.test(cacheStatus)) this.#hits++
    // A collapsed response shares a fetch whose first request stores it.
    else if (/; (?:stored|collapsed)\b/.test(cacheStatus)) this.#stored++
    else increment(this.#notStored, /; detail=(\w+)/.exec(cacheStatus)?.[1] ?? 'moving')
  }

  /** Returns a line of progress: bar and share where the total is known, amount, rate and time left. */
  progressLine (noun: string, share: number | undefined, tookMs: number): string {
    const parts = [
      formatCount(this.reads, noun),
      `${groupDigits(Math.round(this.reads * 1000 / tookMs))}/s`,
      `${groupDigits(this.#hits)} already cached`,
      `${groupDigits(this.#stored)} missed`,
      formatBytes(this.#bytes),
      ...(this.hasFailures ? [`${groupDigits(sumOf(this.#failed))} failed`] : []),
      ...(this.#retries > 0 ? [`${groupDigits(this.#retries)} retried`] : []),
      ...(share !== undefined && share > 0 ? [`${formatDuration(tookMs / share - tookMs)} left`] : [])
    ].join(', ')
    if (share === undefined) return parts
    const bar = '#'.repeat(Math.floor(share * barLength)).padEnd(barLength, '.')
    return `[${bar}] ${String(Math.floor(share * 100)).padStart(3)} %, ${parts}`
  }

  /** Returns the sentences for the end of a run. */
  summary (noun: string, tookMs: number): string {
    const lines = [
      `${formatCount(this.reads, noun)} in ${formatDuration(tookMs)}, ${formatBytes(this.#bytes)}: ${
        formatCount(this.#hits, 'was', 'were')
      } cached already, ${formatCount(this.#stored, 'is', 'are')} cached now`,
      ...(this.#notStored.size > 0 ? [`  not cacheable: ${listOf(this.#notStored, ' ')}`] : []),
      ...(this.hasFailures ? [`  failed: ${listOf(this.#failed, ' with ')}`] : []),
      ...(this.#retries > 0 ? [`  retried: ${groupDigits(this.#retries)}`] : [])
    ]
    return lines.map(line => `${line}\n`).join('')
  }
}

function increment<K> (counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function listOf (counts: ReadonlyMap<string | number, number>, separator: string): string {
  return [...counts].map(([key, count]) => `${groupDigits(count)}${separator}${key}`).join(', ')
}

function sumOf (counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}

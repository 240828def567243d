import { ownOutcomeIn } from '../cache-status.js'
import { type ModelResponse } from './request.js'

// Limits the printed failures of a kind, because more repeat the same.
const mostOfAKind = 2
const mostReported = 10

/** Counts and failures of a run. */
export class Tally {
  /** Judged responses. */
  total = 0
  readonly reports: string[] = []
  readonly #counts = new Map<string, number>()
  readonly #failures = new Map<string, number>()
  readonly #once = new Set<string>()
  readonly #started = performance.now()

  /** Counts a judged response. */
  count (outcome: string): void {
    this.total++
    this.note(outcome)
  }

  /** Counts a judged response by its kind and its Cache-Status; returns the outcome. */
  countResponse (kind: string, { status, headers }: ModelResponse): string {
    const cacheStatus = String(headers['cache-status'])
    const outcome = ownOutcomeIn(cacheStatus) ?? outcomeOf(cacheStatus) ?? cacheStatus
    this.count(`${kind}: ${outcome}${status === 200 ? '' : ` ${status}`}`)
    return outcome
  }

  /** Counts anything else, such as a fault. */
  note (what: string, times = 1): void {
    this.#counts.set(what, this.countOf(what) + times)
  }

  /** The same, once for each key. */
  noteOnce (what: string, key: string): void {
    if (!this.#once.has(key)) this.note(what)
    this.#once.add(key)
  }

  countOf (what: string): number {
    return this.#counts.get(what) ?? 0
  }

  /** Sum of the counts of a group, whose names begin with its name. */
  sumOf (group: string): number {
    return [...this.#counts].reduce((sum, [what, count]) => what.startsWith(`${group}: `) ? sum + count : sum, 0)
  }

  shareOf (outcome: string): number {
    return this.countOf(outcome) / Math.max(1, this.total)
  }

  /** Records a wrong response, with everything needed to investigate it. */
  fail (reason: string, how: string): void {
    // Replaces numbers, which would make one failure look like many.
    const kind = reason.replace(/\d+/g, 'N')
    const count = (this.#failures.get(kind) ?? 0) + 1
    this.#failures.set(kind, count)
    if (count <= mostOfAKind && this.reports.length < mostReported) {
      this.reports.push(`at ${Math.round(performance.now() - this.#started)} ms: ${reason}\n    ${how}`)
    }
  }

  /** Returns the statistics: one line for each group of counts. */
  get lines (): string[] {
    const groups = new Map<string, string[]>()
    for (const [what, count] of [...this.#counts].sort(([a], [b]) => a < b ? -1 : 1)) {
      const [, group = '', name = what] = /^([^:]+): (.*)$/.exec(what) ?? []
      groups.set(group, [...groups.get(group) ?? [], `${name} ${count}`])
    }
    return [
      `${this.total} responses judged`,
      ...[...groups].map(([group, counts]) => `${group === '' ? '' : `${group}: `}${counts.join(', ')}`),
      ...[...this.#failures].map(([reason, count]) => `WRONG ${count} times: ${reason}`)
    ]
  }
}

/** Cache-Status of a hit of another varve's entry. */
export const redisHit = 'varve; hit; detail=redis'
/** Cache-Status of a hit on the disk. */
export const diskHit = 'varve; hit; detail=disk'
/** Cache-Status of a latest read from the cache. */
export const followedHit = 'varve; hit; detail=followed'

/** Outcome of a request; `rejected` is varve's own response. */
export type Outcome = 'hit' | 'pruned hit' | 'stored' | 'not cacheable' | 'collapsed' | 'forwarded' | 'rejected'

/** Returns the outcome of a response by its Cache-Status. */
export function outcomeOf (cacheStatus: string | undefined): Outcome | undefined {
  switch (cacheStatus) {
    case 'varve; hit; detail=memory':
    case followedHit:
    case redisHit:
    case diskHit:
      return 'hit'
    case 'varve; hit; detail=pruned':
      return 'pruned hit'
    case 'varve; fwd=uri-miss; collapsed':
      return 'collapsed'
    case 'varve; fwd=bypass':
      return 'forwarded'
    default: {
      if (ownOutcomeIn(cacheStatus) !== undefined) return 'rejected'
      const end = /^varve; fwd=uri-miss; fwd-status=\d{3}; (?:(stored)|detail=\w+)$/.exec(cacheStatus ?? '')
      return end === null ? undefined : end[1] === undefined ? 'not cacheable' : 'stored'
    }
  }
}

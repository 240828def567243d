import { ownOutcomeIn } from '../own-outcome.js'

/** Outcomes of the requests of a run. */
export class FuzzTally {
  total = 0
  readonly #counts = new Map<string, number>()

  count (outcome: string): void {
    this.total++
    this.note(outcome)
  }

  /** Counts events other than responses, such as ledger changes. */
  note (what: string, times = 1): void {
    this.#counts.set(what, this.countOf(what) + times)
  }

  countOf (what: string): number {
    return this.#counts.get(what) ?? 0
  }

  shareOf (outcome: string): number {
    return this.countOf(outcome) / Math.max(1, this.total)
  }

  get lines (): string[] {
    return [...this.#counts].sort(([a], [b]) => a < b ? -1 : 1).map(([what, count]) => `${what}: ${count}`)
  }
}

/** Cache-Status of a hit of another varve's entry. */
export const redisHit = 'varve; hit; detail=redis'
/** Cache-Status of a hit that observing bypasses. */
export const wouldHit = 'varve; fwd=bypass; detail=would-hit'

/** Returns the outcome of a response by its Cache-Status. */
export function outcomeOf (
  cacheStatus: string | undefined
): 'hit' | 'pruned hit' | 'stored' | 'not cacheable' | 'collapsed' | 'forwarded' | 'refused' | undefined {
  switch (cacheStatus) {
    case 'varve; hit; detail=memory':
    case redisHit:
      return 'hit'
    case 'varve; hit; detail=pruned':
      return 'pruned hit'
    case 'varve; fwd=uri-miss; collapsed':
      return 'collapsed'
    case 'varve; fwd=bypass':
    case wouldHit:
      return 'forwarded'
    default: {
      if (ownOutcomeIn(cacheStatus) !== undefined) return 'refused'
      const end = /^varve; fwd=uri-miss; fwd-status=\d{3}; (?:(stored)|detail=\w+)$/.exec(cacheStatus ?? '')
      return end === null ? undefined : end[1] === undefined ? 'not cacheable' : 'stored'
    }
  }
}

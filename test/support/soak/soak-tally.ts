import { type TestResponse } from '../client.js'
import { ownOutcomeIn } from '../own-outcome.js'
import { type Tolerance } from './judge-under-load.js'

// Limits the printed failures of a kind, because more repeat the same.
const mostTold = 2

/** Counts and failures of a run. */
export class SoakTally {
  readonly reports: string[] = []
  readonly failures = new Map<string, number>()
  readonly tolerated = new Map<Tolerance, number>()
  readonly faults = new Map<string, number>()
  readonly #outcomes = new Map<string, number>()
  readonly #hitMs: number[] = []
  readonly #started = performance.now()
  checked = 0

  /** Counts a fault of varve or of its dependencies. */
  fault (name: string): void {
    add(this.faults, name)
  }

  /** Counts a checked response. */
  answer (kind: string, got: TestResponse, tookMs: number): void {
    const said = String(got.headers['cache-status'])
    const outcome = ownOutcomeIn(said) ?? /detail=(?:pruned|memory|redis)/.exec(said)?.[0].slice(7) ??
      /collapsed|stored|bypass|miss/.exec(said)?.[0] ?? said
    this.checked++
    add(this.#outcomes, `${kind} ${outcome}${got.status === 200 ? '' : ` ${got.status}`}`)
    if (outcome === 'memory' || outcome === 'redis' || outcome === 'pruned') this.#hitMs.push(tookMs)
  }

  /** Counts an aborted request. */
  abandoned (kind: string): void {
    add(this.#outcomes, `${kind} left`)
  }

  tolerate (grant: Tolerance): void {
    add(this.tolerated, grant)
  }

  /** Records a wrong response, with everything needed to investigate it. */
  fail (reason: string, how: string): void {
    // Replaces numbers, which would make one failure look like many.
    const kind = reason.replace(/\d+/g, 'N')
    add(this.failures, kind)
    if ((this.failures.get(kind) ?? 0) <= mostTold) {
      this.reports.push(`at ${Math.round(performance.now() - this.#started)} ms: ${reason}\n    ${how}`)
    }
  }

  /** Returns the statistics, one per line. */
  get lines (): string[] {
    const told = (counts: ReadonlyMap<string, number>): string =>
      [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => `${name} ${count}`).join(', ')
    const sorted = this.#hitMs.sort((a, b) => a - b)
    const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? NaN).toFixed(1)
    return [
      `${this.checked} answers checked: ${told(this.#outcomes)}`,
      `granted since nodes may be asked for no more: ${told(this.tolerated) || 'nothing'}`,
      `hits as clients saw them: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms of ${sorted.length}`,
      `faults: ${told(this.faults)}`,
      ...[...this.failures].map(([reason, count]) => `WRONG ${count} times: ${reason}`)
    ]
  }
}

function add<K> (counts: Map<K, number>, name: K): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

import { type TestResponse } from '../client.js'
import { ownOutcomeIn } from '../own-outcome.js'
import { type JudgedRead } from './judge.js'
import { faultNames, type FaultName } from './fault-schedule.js'

// Limits the printed failures of a kind, because more repeat the same.
const mostTold = 8

/** Counts and failures of a run. */
export class SimulationTally {
  readonly failures = new Map<string, number>()
  readonly reports: string[] = []
  readonly #reads = new Map<string, Map<string, number>>()
  readonly #faults = new Map<FaultName, number>()
  readonly #started = performance.now()
  total = 0
  hits = 0
  errors = 0
  /** Reads while an upstream could respond. */
  withUpstream = 0
  /** Hits while no upstream could respond. */
  hitsWithoutUpstream = 0
  /** Latest responses behind the served head. */
  readonly stale = new Set<string>()
  slowestMs = 0

  fault (name: FaultName): void {
    this.#faults.set(name, this.faultsOf(name) + 1)
  }

  faultsOf (name: FaultName): number {
    return this.#faults.get(name) ?? 0
  }

  get faults (): number {
    return faultNames.reduce((sum, name) => sum + this.faultsOf(name), 0)
  }

  read ({ spec, response, span }: JudgedRead, { wasAlone, wasAble }: { wasAlone: boolean, wasAble: boolean }): void {
    const outcome = outcomeOf(response)
    const outcomes = this.#reads.get(spec.kind) ?? new Map<string, number>()
    this.#reads.set(spec.kind, outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1))
    this.total++
    const isHit = outcome.startsWith('hit') || outcome.startsWith('pruned')
    if (isHit) this.hits++
    if (isHit && wasAlone) this.hitsWithoutUpstream++
    if (wasAble) this.withUpstream++
    if (response.status >= 500) this.errors++
    this.slowestMs = Math.max(this.slowestMs, span.to - span.from)
  }

  /** Records a wrong response, with everything needed to investigate it. */
  fail (reason: string, how: string): void {
    // Replaces numbers, which would make one failure look like many.
    const kind = reason.replace(/\d+/g, 'N')
    this.failures.set(kind, (this.failures.get(kind) ?? 0) + 1)
    if (this.reports.length < mostTold) {
      this.reports.push(`at ${Math.round(performance.now() - this.#started)} ms: ${reason}\n    ${how}`)
    }
  }

  /** Returns the statistics, one per line. */
  get lines (): string[] {
    const reads = [...this.#reads].sort().map(([kind, outcomes]) =>
      `${kind}: ${
        [...outcomes].sort((a, b) => b[1] - a[1]).map(([outcome, count]) => `${outcome} ${count}`).join(', ')
      }`
    )
    return [
      `${this.total} reads, ${this.withUpstream} with a node able, ${this.hits} hits, ${this.hitsWithoutUpstream} of them with no node that answered, ${this.errors} errors of 5xx, ${this.stale.size} latest answers behind, the slowest ${
        Math.round(this.slowestMs)
      } ms`,
      ...reads,
      `faults: ${faultNames.map(name => `${name} ${this.faultsOf(name)}`).join(', ')}`,
      ...[...this.failures].map(([reason, count]) => `WRONG ${count} times: ${reason}`)
    ]
  }
}

function outcomeOf ({ status, headers }: TestResponse): string {
  const said = String(headers['cache-status'])
  const what = ownOutcomeIn(said) ?? /pruned/.exec(said)?.[0] ?? /hit|collapsed|stored|bypass|miss/.exec(said)?.[0] ??
    said
  return status === 200 ? what : `${what}-${status}`
}

import { missCauses } from '../cache/removals.js'
import { outcomeNames } from '../proxy/outcomes.js'
import { sumTotals, type Totals } from './totals.js'

/** Sources of responses to requests for pruned history; labels of `varve_pruned_requests_total`. */
export const prunedAnswers = ['cache', 'local', 'upstream'] as const

const groups = {
  outcomes: outcomeNames,
  misses: missCauses,
  pruned: prunedAnswers,
  responses: ['server_error']
} as const

type Columns<T> = { readonly [Group in keyof typeof groups]: Readonly<Record<typeof groups[Group][number], T>> }

/** Faults that concern every later response, so that an alert pages for a single one. */
export const faultNames = ['audit_different', 'chain_reset', 'descriptors_exhausted', 'follow_different'] as const

/** One of the closed list. */
export type FaultName = typeof faultNames[number]

/** Totals since the process started. */
export type Counts = Columns<number> & { readonly faults: Readonly<Record<FaultName, number>> }

/** Counts of the last ten minutes: one number per step, oldest first; the last step is not over. */
export interface RecentSnapshot extends Columns<readonly number[]> {
  /** Unix time of the last fault of each kind. */
  readonly lastFaultMs: Readonly<Partial<Record<FaultName, number>>>
  readonly stepMs: number
  /** Unix time at which the last step began; steps begin at multiples of `stepMs`, so those of all workers align. */
  readonly lastStepMs: number
  /** Requests since the start. */
  readonly totals: Totals
}

const stepMs = 5000
// Ten minutes and the step that is not over.
const maxSteps = 121

/** Recent counts of one process: differences of its counters, so that requests cost nothing more. */
export class RecentCounts {
  readonly #read: () => Counts
  readonly #readTotals: () => Totals
  readonly #wallClockMs: () => number
  readonly #firstMs: number
  // Keyed by the start of the step; steps without a tick are absent.
  readonly #steps = new Map<number, Columns<number>>()
  readonly #lastFaultMs: Partial<Record<FaultName, number>> = {}
  #before: Counts

  constructor (read: () => Counts, wallClockMs: () => number, readTotals = (): Totals => sumTotals([])) {
    this.#read = read
    this.#readTotals = readTotals
    this.#wallClockMs = wallClockMs
    this.#firstMs = this.#stepNow()
    this.#before = read()
  }

  /** Adds what was counted since the last tick to the current step; call it more often than once a step. */
  tick (): void {
    const now = this.#read()
    const before = this.#before
    const at = this.#stepNow()
    const step = this.#steps.get(at) ?? zero
    this.#steps.set(at, mapColumns(pick => pick(step) + pick(now) - pick(before)))
    for (const fault of faultNames) {
      if (now.faults[fault] > before.faults[fault]) this.#lastFaultMs[fault] = this.#wallClockMs()
    }
    this.#before = now
    for (const step of this.#steps.keys()) if (step <= at - maxSteps * stepMs) this.#steps.delete(step)
  }

  /** Number of steps in memory. */
  get size (): number {
    return this.#steps.size
  }

  get snapshot (): RecentSnapshot {
    this.tick()
    const last = this.#stepNow()
    const length = Math.min(maxSteps, (last - this.#firstMs) / stepMs + 1)
    const steps = Array.from({ length }, (_, at) => this.#steps.get(last - (length - 1 - at) * stepMs) ?? zero)
    return {
      stepMs,
      lastStepMs: last,
      lastFaultMs: { ...this.#lastFaultMs },
      totals: this.#readTotals(),
      ...mapColumns(pick => steps.map(pick))
    }
  }

  #stepNow (): number {
    return Math.floor(this.#wallClockMs() / stepMs) * stepMs
  }
}

/** Recent counts of all workers; those of an ended worker stay until they are ten minutes old. */
export class MergedRecentCounts {
  readonly #own: RecentCounts
  readonly #last = new Map<object, RecentSnapshot>()
  readonly #ended = new WeakSet<object>()
  #removed: RecentSnapshot

  constructor (wallClockMs: () => number, read: () => Counts) {
    // The primary serves no requests; its own counts give the current step, and its faults.
    this.#own = new RecentCounts(read, wallClockMs)
    this.#removed = this.#own.snapshot
  }

  /** Replaces a worker's snapshot; one with a clock that differs by more than a step is moved to the current step. */
  update (worker: object, snapshot: RecentSnapshot): void {
    if (this.#ended.has(worker)) return
    const { lastStepMs } = this.#own.snapshot
    // Allows a step of difference: a snapshot may arrive after its step ended.
    const isCurrent = Math.abs(snapshot.lastStepMs - lastStepMs) <= stepMs
    this.#last.set(worker, isCurrent ? snapshot : { ...snapshot, lastStepMs })
  }

  /** Moves the counts of an ended worker to the sum of removed ones. */
  remove (worker: object): void {
    const snapshot = this.#last.get(worker)
    this.#last.delete(worker)
    this.#ended.add(worker)
    if (snapshot !== undefined) this.#removed = sumSnapshots([this.#removed, snapshot])
  }

  get snapshot (): RecentSnapshot {
    return sumSnapshots([this.#own.snapshot, this.#removed, ...this.#last.values()])
  }
}

function sumSnapshots (all: readonly RecentSnapshot[]): RecentSnapshot {
  const lastStepMs = Math.max(...all.map(({ lastStepMs: last }) => last))
  const stepsBehind = ({ lastStepMs: last }: RecentSnapshot): number => (lastStepMs - last) / stepMs
  const length = Math.min(
    maxSteps,
    Math.max(...all.map(snapshot => stepsBehind(snapshot) + snapshot.outcomes.miss.length))
  )
  return {
    stepMs,
    lastStepMs,
    lastFaultMs: Object.fromEntries(faultNames.flatMap(fault => {
      const times = all.flatMap(({ lastFaultMs }) => lastFaultMs[fault] ?? [])
      return times.length === 0 ? [] : [[fault, Math.max(...times)]]
    })),
    totals: sumTotals(all.map(({ totals }) => totals)),
    ...mapColumns(pick => {
      const columns = all.map(snapshot => ({ steps: pick(snapshot), behind: stepsBehind(snapshot) }))
      return Array.from(
        { length },
        (_, at) =>
          columns.reduce((sum, { steps, behind }) => sum + (steps[steps.length - length + at + behind] ?? 0), 0)
      )
    })
  }
}

/** Makes a value for each column; `pick` takes that column of any counts. */
function mapColumns<T> (valueOf: (pick: <U>(columns: Columns<U>) => U) => T): Columns<T> {
  const make = (group: keyof typeof groups): object =>
    Object.fromEntries(groups[group].map(name => [
      name,
      valueOf(<U>(columns: Columns<U>) => (columns[group] as Readonly<Record<string, U>>)[name] as U)
    ]))
  return Object.fromEntries(
    (Object.keys(groups) as (keyof typeof groups)[]).map(group => [group, make(group)])
  ) as Columns<T>
}

const zero = mapColumns(() => 0)

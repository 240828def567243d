import { outcomeNames } from '../proxy/outcomes.js'
import { sumTotals, type Totals } from './totals.js'

/** Sources of responses to requests for pruned history; labels of `varve_pruned_requests_total`. */
export const prunedAnswers = ['cache', 'local', 'upstream'] as const

const groups = { outcomes: outcomeNames, pruned: prunedAnswers, responses: ['server_error'] } as const

type PerLabel<T> = { readonly [Group in keyof typeof groups]: Readonly<Record<typeof groups[Group][number], T>> }

/** Faults that concern every later response, so that an alert pages for a single one. */
export const faultNames = ['audit_different', 'chain_reset', 'descriptors_exhausted', 'follow_different'] as const

/** One of the closed list. */
export type FaultName = typeof faultNames[number]

/** Totals since the process started. */
export type Counts = Pick<PerLabel<number>, 'outcomes' | 'pruned'> & Partial<Pick<PerLabel<number>, 'responses'>> & {
  readonly faults?: Readonly<Record<FaultName, number>>
}

/** Counts of the last ten minutes: one number per step, oldest first; the last step is not over. */
export interface RecentSnapshot extends PerLabel<readonly number[]> {
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
  readonly #steps = new Map<number, Counts>()
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
    const stepCounts = this.#steps.get(at)
    this.#steps.set(
      at,
      mapLabels((group, name) =>
        countIn(stepCounts, group, name) + countIn(now, group, name) - countIn(before, group, name)
      )
    )
    for (const fault of faultNames) {
      if ((now.faults?.[fault] ?? 0) > (before.faults?.[fault] ?? 0)) this.#lastFaultMs[fault] = this.#wallClockMs()
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
    return {
      stepMs,
      lastStepMs: last,
      lastFaultMs: { ...this.#lastFaultMs },
      totals: this.#readTotals(),
      ...mapLabels((group, name) =>
        Array.from({ length }, (_, at) => countIn(this.#steps.get(last - (length - 1 - at) * stepMs), group, name))
      )
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

  constructor (wallClockMs: () => number, read: () => Counts = () => mapLabels(() => 0)) {
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
    ...mapLabels((group, name) => {
      const columns = all.map(snapshot => ({ steps: stepsOf(snapshot, group, name), behind: stepsBehind(snapshot) }))
      return Array.from(
        { length },
        (_, at) =>
          columns.reduce((sum, { steps, behind }) => sum + (steps[steps.length - length + at + behind] ?? 0), 0)
      )
    })
  }
}

function mapLabels<T> (of: (group: keyof typeof groups, name: string) => T): PerLabel<T> {
  const make = (group: keyof typeof groups): Record<string, T> =>
    Object.fromEntries(groups[group].map(name => [name, of(group, name)]))
  return { outcomes: make('outcomes'), pruned: make('pruned'), responses: make('responses') } as PerLabel<T>
}

function countIn (counts: Counts | undefined, group: keyof typeof groups, name: string): number {
  return (counts?.[group] as Record<string, number> | undefined)?.[name] ?? 0
}

function stepsOf (snapshot: RecentSnapshot, group: keyof typeof groups, name: string): readonly number[] {
  return (snapshot[group] as Record<string, readonly number[]>)[name] ?? []
}

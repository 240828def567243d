import { missCauses } from '../cache/removals.js'
import { outcomeNames } from '../proxy/outcomes.js'

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

/** Fault that an alert pages for. */
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

/** Recent counts of one process: differences of its counters, so that they cost a request nothing. */
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

/** Requests of a process since its start; all parts can be added to those of other processes. */
export interface Totals {
  readonly endpoints: Readonly<Record<string, { readonly requests: number, readonly saved: number }>>
  readonly clients: Readonly<Record<string, { readonly requests: number, readonly bytes: number }>>
  /** Price of the upstream requests that reads saved. */
  readonly savings: number
  /** Durations of hits and of misses: a count for each bucket, the last one above all bounds. */
  readonly hits: readonly number[]
  readonly misses: readonly number[]
}

const maxRows = 5

/** Adds the totals of several processes. */
export function sumTotals (all: readonly Totals[]): Totals {
  const endpoints: Record<string, { requests: number, saved: number }> = {}
  const clients: Record<string, { requests: number, bytes: number }> = {}
  for (const totals of all) {
    for (const [name, { requests, saved }] of Object.entries(totals.endpoints)) {
      const sum = endpoints[name] ??= { requests: 0, saved: 0 }
      sum.requests += requests
      sum.saved += saved
    }
    for (const [name, { requests, bytes }] of Object.entries(totals.clients)) {
      const sum = clients[name] ??= { requests: 0, bytes: 0 }
      sum.requests += requests
      sum.bytes += bytes
    }
  }
  return {
    endpoints,
    clients,
    savings: all.reduce((sum, { savings }) => sum + savings, 0),
    hits: sumBuckets(all.map(({ hits }) => hits)),
    misses: sumBuckets(all.map(each => each.misses))
  }
}

/** Totals as the status page shows them. */
export type TotalsSummary = ReturnType<typeof summaryOf>

/** Summarises totals; `bounds` are the upper bounds of the buckets in seconds. */
export function summaryOf ({ endpoints, clients, savings, hits, misses }: Totals, bounds: readonly number[]) {
  const rows = Object.entries(endpoints).map(([endpoint, counts]) => ({ endpoint, ...counts }))
  return {
    readsSaved: rows.reduce((sum, { saved }) => sum + saved, 0),
    savings,
    hitMs: quantilesOf(hits, bounds),
    missMs: quantilesOf(misses, bounds),
    endpoints: rows.sort((a, b) => b.requests - a.requests).slice(0, maxRows),
    clients: Object.entries(clients).map(([client, counts]) => ({ client, ...counts }))
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, maxRows)
  }
}

/** Adds counts bucket by bucket. */
export function sumBuckets (all: ReadonlyArray<readonly number[]>): number[] {
  const length = Math.max(0, ...all.map(buckets => buckets.length))
  return Array.from({ length }, (_, at) => all.reduce((sum, buckets) => sum + (buckets[at] ?? 0), 0))
}

/** Returns undefined before the first request. */
function quantilesOf (buckets: readonly number[], bounds: readonly number[]) {
  const count = buckets.reduce((sum, each) => sum + each, 0)
  if (count === 0) return undefined
  return { p50: quantileMs(0.5 * count, buckets, bounds), p99: quantileMs(0.99 * count, buckets, bounds) }
}

// Interpolates inside a bucket as Prometheus does; above all bounds the last bound is a lower limit.
function quantileMs (rank: number, buckets: readonly number[], bounds: readonly number[]): number {
  let below = 0
  for (const [at, bound] of bounds.entries()) {
    const count = buckets[at] ?? 0
    const floor = bounds[at - 1] ?? 0
    if (below + count >= rank && count > 0) {
      return Math.round((floor + (bound - floor) * (rank - below) / count) * 1e6) / 1000
    }
    below += count
  }
  return (bounds.at(-1) ?? 0) * 1000
}

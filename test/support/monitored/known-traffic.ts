import { type Prometheus } from '../prometheus.js'
import { type FactCounts, type Scenario } from './scenario.js'
import { type SentRequest } from './expected-traffic.js'
import { type MonitoredEnvironment } from './monitored-environment.js'

/** Expected value of a series: a number or a range. */
export type ExpectedValue = number | readonly [least: number, most: number]

/** Expected series of a query. */
export interface ExpectedSeries {
  readonly labels: Readonly<Record<string, string>>
  readonly value: ExpectedValue
}

/** The three monitored replicas. */
export type ReplicaName = 'first' | 'second' | 'tight'

export const replicaNames = ['first', 'second', 'tight'] as const

/** An upstream of the three replicas. */
export type OwnUpstream = Exclude<keyof MonitoredEnvironment['upstreams'], 'elsewhere'>

/** Knowledge about a time span from its requests and actions, without varve's own counters. */
export interface KnownTraffic {
  readonly environment: MonitoredEnvironment
  readonly scene: Scenario
  readonly facts: FactCounts
  readonly sent: readonly SentRequest[]
  /** Requests of the rehearsal, before the span. */
  readonly rehearsed: readonly SentRequest[]
  /** Length and end of the span, in seconds. */
  readonly seconds: number
  readonly at: number
  instance(who: ReplicaName): string
  /** Returns Prometheus' increase for a count of a replica: it extrapolates to both ends of the span. */
  expectedIncrease(who: ReplicaName, count: number): number
  /** The same for all requests that match. */
  count(is?: (sent: SentRequest) => boolean): number
  /** Returns the least and greatest number of requests by the upstreams' own counts. */
  upstreamRequests(
    upstream: OwnUpstream | 'all',
    endpoint?: string
  ): readonly [number, number]
  /** Processor time in seconds and memory in bytes of the process that runs everything. */
  readonly process: { readonly cpu: number, readonly memory: number }
}

/** Number of requests of each upstream, by endpoint. */
export type RequestCounts = Record<OwnUpstream, Record<string, number>>

export function readRequestCounts (
  { upstreams: { whole, behind, dead, strange } }: MonitoredEnvironment
): RequestCounts {
  return {
    whole: whole.requests.counts,
    behind: behind.requests.counts,
    dead: dead.requests.counts,
    strange: strange.requests.counts
  }
}

/**
 * Returns Prometheus' extrapolation factor of each replica: by half an interval, or to an end nearer than 1.1
 * intervals.
 */
export async function extrapolated (
  prometheus: Prometheus,
  range: string,
  seconds: number,
  at: number
): Promise<Map<string, number>> {
  const ups = await prometheus.query(`up[${range}]`, at)
  return new Map(ups.map(({ labels, points: all }) => {
    // Skips failed scrapes, which store nothing but the failure.
    const points = all.filter(([, up]) => up === 1)
    const first = points[0]?.[0] ?? NaN
    const last = points.at(-1)?.[0] ?? NaN
    const between = (last - first) / (points.length - 1)
    const missing = [first - (at - seconds), at - last].map(gap => gap < 1.1 * between ? gap : between / 2)
    return [labels['instance'] ?? '', (last - first + missing.reduce((sum, gap) => sum + gap)) / (last - first)]
  }))
}

/** Returns one series without labels. */
export function singleSeries (value: ExpectedValue, labels: Record<string, string> = {}): ExpectedSeries[] {
  return [{ labels, value }]
}

/** Returns a series for each value of a label. */
export function seriesFor<T extends string> (
  label: string,
  values: readonly T[],
  value: (of: T) => ExpectedValue
): ExpectedSeries[] {
  return values.map(of => ({ labels: { [label]: of }, value: value(of) }))
}

/** True if a request of the span or before it matches: a series of a histogram appears with its first observation. */
export function hasSeries ({ sent, rehearsed }: KnownTraffic, is: (sent: SentRequest) => boolean): boolean {
  return [...sent, ...rehearsed].some(is)
}

/** Returns the same value multiplied. */
export function scaled (value: ExpectedValue, by: number): ExpectedValue {
  return typeof value === 'number' ? value * by : [value[0] * by, value[1] * by]
}

/** True if a value is as predicted. */
export function matchesExpected (value: number, foretold: ExpectedValue): boolean {
  if (typeof foretold !== 'number') return value >= foretold[0] * 0.999 && value <= foretold[1] * 1.001
  if (Number.isNaN(foretold)) return Number.isNaN(value)
  return Math.abs(value - foretold) <= 1e-3 * Math.abs(foretold) + 1e-9
}

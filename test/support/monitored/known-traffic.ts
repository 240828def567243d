import { type Prometheus } from '../prometheus.js'
import { type FactCounts, type Scenario } from './scenario.js'
import { type SentRequest } from './expected-traffic.js'
import { type MonitoredEnvironment } from './monitored-environment.js'

/** What a series is to be: a number, or no less than one and no more than another. */
export type ExpectedValue = number | readonly [least: number, most: number]

/** A series that a query is to have. */
export interface ExpectedSeries {
  readonly labels: Readonly<Record<string, string>>
  readonly value: ExpectedValue
}

/** The three replicas that are watched. */
export type ReplicaName = 'first' | 'second' | 'tight'

export const replicaNames = ['first', 'second', 'tight'] as const

/** All that is known of a span of time from what was sent and done in it, and nothing from varve's own counters. */
export interface KnownTraffic {
  readonly environment: MonitoredEnvironment
  readonly scene: Scenario
  readonly facts: FactCounts
  readonly sent: readonly SentRequest[]
  /** What was sent before the span, when the same was done for the first time. */
  readonly rehearsed: readonly SentRequest[]
  /** How long it was, and when it ended, in seconds. */
  readonly seconds: number
  readonly at: number
  instance(who: ReplicaName): string
  /** What Prometheus makes of so many counted by a replica: it prolongs what it saw to both ends of the span. */
  expectedIncrease(who: ReplicaName, count: number): number
  /** The same of all requests of a kind. */
  count(is?: (sent: SentRequest) => boolean): number
  /** How often nodes were asked, at least and at most, as they tell themselves. */
  upstreamRequests(node: keyof MonitoredEnvironment['upstreams'] | 'all', endpoint?: string): readonly [number, number]
  /** Of the process that all of it runs in: seconds of processor, and bytes. */
  readonly process: { readonly cpu: number, readonly memory: number }
}

/** How often each node was asked, by endpoint. */
export type RequestCounts = Record<keyof MonitoredEnvironment['upstreams'], Record<string, number>>

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
 * By how much Prometheus prolongs what it saw of each replica: half an interval at most, or the whole way where an end
 * is nearer than 1.1 of one.
 */
export async function extrapolated (
  prometheus: Prometheus,
  range: string,
  seconds: number,
  at: number
): Promise<Map<string, number>> {
  const ups = await prometheus.query(`up[${range}]`, at)
  return new Map(ups.map(({ labels, points: all }) => {
    // Of a scrape that failed there is nothing but that it did.
    const points = all.filter(([, up]) => up === 1)
    const first = points[0]?.[0] ?? NaN
    const last = points.at(-1)?.[0] ?? NaN
    const between = (last - first) / (points.length - 1)
    const missing = [first - (at - seconds), at - last].map(gap => gap < 1.1 * between ? gap : between / 2)
    return [labels['instance'] ?? '', (last - first + missing.reduce((sum, gap) => sum + gap)) / (last - first)]
  }))
}

/** One series without labels. */
export function singleSeries (value: ExpectedValue, labels: Record<string, string> = {}): ExpectedSeries[] {
  return [{ labels, value }]
}

/** A series for each value of a label. */
export function seriesFor<T extends string> (
  label: string,
  values: readonly T[],
  value: (of: T) => ExpectedValue
): ExpectedSeries[] {
  return values.map(of => ({ labels: { [label]: of }, value: value(of) }))
}

/** The same value with other numbers of it. */
export function scaled (value: ExpectedValue, by: number): ExpectedValue {
  return typeof value === 'number' ? value * by : [value[0] * by, value[1] * by]
}

/** Whether a value is as foretold. */
export function matchesExpected (value: number, foretold: ExpectedValue): boolean {
  if (typeof foretold !== 'number') return value >= foretold[0] * 0.999 && value <= foretold[1] * 1.001
  if (Number.isNaN(foretold)) return Number.isNaN(value)
  return Math.abs(value - foretold) <= 1e-3 * Math.abs(foretold) + 1e-9
}

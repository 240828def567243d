import { type TierName } from '../cache/tier.js'

/** Values of a label: a closed list, or names from the configuration (law 10: nothing grows without bound). */
export type LabelValues = readonly string[] | 'upstreams' | 'clients' | 'release' | 'chain'

/** Function that merges a gauge of several workers: the sum of what each owns, else the value that needs attention. */
export type Aggregation = 'sum' | 'max' | 'min'

/** Definition of a metric; its label values bound the number of its series. */
export interface MetricDefinition {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: Readonly<Record<string, LabelValues>>
  readonly help: string
  /** Upper bounds of a histogram's buckets, ascending; empty for other types. */
  readonly bounds: readonly number[]
  /** Present on gauges only. */
  readonly aggregation?: Aggregation
  /** Creates series when first counted, since most of them never are. */
  readonly isSparse?: true
  /** Tier without which the metric has no series. */
  readonly tier?: TierName
  /** False for labels that no event can have together; absent if all can. */
  readonly isPossible?: (labels: Readonly<Record<string, string>>) => boolean
}

/** Definition whose name is known to the compiler. */
type NamedDefinition<N extends string> = MetricDefinition & { readonly name: N }

/** Defines a counter. */
export function counter<N extends string> (
  name: N,
  labels: MetricDefinition['labels'],
  help: string,
  options: Pick<MetricDefinition, 'isSparse' | 'tier' | 'isPossible'> = {}
): NamedDefinition<N> {
  return { name, type: 'counter', labels, help, bounds: [], ...options }
}

/** Defines a gauge. */
export function gauge<N extends string> (
  name: N,
  labels: MetricDefinition['labels'],
  help: string,
  aggregation: Aggregation,
  options: Pick<MetricDefinition, 'tier'> = {}
): NamedDefinition<N> {
  return { name, type: 'gauge', labels, help, bounds: [], aggregation, ...options }
}

/** Defines a histogram. */
export function histogram<N extends string> (
  name: N,
  labels: MetricDefinition['labels'],
  help: string,
  bounds: readonly number[]
): NamedDefinition<N> {
  return { name, type: 'histogram', labels, help, bounds }
}

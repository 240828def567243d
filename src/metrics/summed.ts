import { AggregatorRegistry, type Registry } from 'prom-client'

/** One metric as a process tells it to another. */
export interface ToldMetric {
  readonly name: string
  readonly type: string
  readonly values: ReadonlyArray<{ readonly value: number, readonly labels: object, readonly metricName?: string }>
}

/** All metrics of one process. */
export type ToldMetrics = readonly ToldMetric[]

/**
 * What several processes count, as one. What a process has counted stays counted when it has ended: a total that falls
 * would be taken for a new start, and everything before it be counted again.
 */
export class SummedMetrics {
  readonly #last = new Map<object, ToldMetrics>()
  readonly #gone = new WeakSet<object>()
  readonly #ownAlone: readonly string[]
  #ended: Promise<ToldMetrics> = Promise.resolve([])

  /** Of some what this process counts is the whole, since each of the others counts the same thing. */
  constructor (ownAlone: readonly string[] = []) {
    this.#ownAlone = ownAlone
  }

  /** Takes in what a process tells now. */
  tells (process: object, told: ToldMetrics): void {
    // What is counted already is not to be counted again.
    if (!this.#gone.has(process)) this.#last.set(process, told.filter(({ name }) => !this.#ownAlone.includes(name)))
  }

  /** A process has ended: what it counted stays, what it measured at the moment does not. */
  ends (process: object): void {
    const counted = (this.#last.get(process) ?? []).filter(({ type }) => type === 'counter' || type === 'histogram')
    this.#last.delete(process)
    this.#gone.add(process)
    this.#ended = this.#ended.then(async ended =>
      await sumOf([ended, counted]).getMetricsAsJSON() as unknown as ToldMetrics
    )
  }

  /** All of it as Prometheus reads it, with what this process counts itself. */
  async text (own: ToldMetrics): Promise<string> {
    const ended = await this.#ended
    return await sumOf(withoutBlanks([own, ...this.#last.values(), ended])).metrics()
  }
}

function sumOf (told: readonly ToldMetrics[]): Registry {
  return AggregatorRegistry.aggregate(told as never)
}

// What one process cannot tell yet is no reason not to show what another can.
function withoutBlanks (told: readonly ToldMetrics[]): ToldMetrics[] {
  const known = new Set<string>()
  for (const { name, type, values } of told.flat()) {
    if (type === 'gauge') {
      for (const { value, labels } of values) if (Number.isFinite(value)) known.add(nameOf(name, labels))
    }
  }
  return told.map(metrics =>
    metrics.map(metric =>
      metric.type !== 'gauge'
        ? metric
        : {
          ...metric,
          values: metric.values.filter(({ value, labels }) =>
            Number.isFinite(value) || !known.has(nameOf(metric.name, labels))
          )
        }
    )
  )
}

function nameOf (name: string, labels: object): string {
  return `${name} ${JSON.stringify(labels)}`
}

import { type LabelValues, type MetricDefinition } from '../../src/metrics/definitions.js'
import { possibleSeries } from '../../src/metrics/metric-factories.js'
import { sendRequest } from './client.js'

/** A metric as a scrape shows it. */
export interface Scraped {
  readonly type: string
  readonly help: string
  readonly series: ReadonlyArray<
    { readonly name: string, readonly labels: Readonly<Record<string, string>>, readonly value: number }
  >
}

/** Returns the metrics of GET /metrics by name; throws on a malformed line. */
export async function scrape (adminUrl: string): Promise<Map<string, Scraped>> {
  const metrics = new Map<string, { type: string, help: string, series: Array<Scraped['series'][number]> }>()
  for (const line of (await sendRequest(adminUrl, '/metrics')).body.split('\n').filter(text => text !== '')) {
    const [, about, named = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (about === 'HELP') metrics.set(named, { type: '', help: rest, series: [] })
    else if (about === 'TYPE') metrics.set(named, { ...metrics.get(named) ?? { help: '', series: [] }, type: rest })
    else {
      const [, name = '', labels = '', value = ''] = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
      const owner = metrics.get(name) ?? metrics.get(name.replace(/_(?:bucket|sum|count)$/, ''))
      if (owner === undefined) throw new Error(`no metric that this is a series of: ${line}`)
      owner.series.push({
        name,
        labels: Object.fromEntries(
          [...labels.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', text = '']) => [label, text])
        ),
        value: Number(value)
      })
    }
  }
  return metrics
}

/** Numbers of configured names, which bound the series of a metric. */
export interface ConfiguredCounts {
  /** Upstream names since the start: counters of a removed upstream stay. */
  readonly upstreams: number
  /** Names of client keys since the start. */
  readonly clients: number
}

/** Returns the lines of one series; a histogram has one per bound, `+Inf`, sum and count. */
function samplesPerSeries ({ type, bounds }: MetricDefinition): number {
  return type === 'histogram' ? bounds.length + 3 : 1
}

/** Returns the maximum number of series of a metric. */
export function maxSeries (definition: MetricDefinition, configured: ConfiguredCounts): number {
  if (definition.isPossible !== undefined) return possibleSeries(definition).length * samplesPerSeries(definition)
  return Object.values(definition.labels).reduce(
    (series, values) => series * sizeOf(values, configured),
    samplesPerSeries(definition)
  )
}

function sizeOf (values: LabelValues, configured: ConfiguredCounts): number {
  if (typeof values !== 'string') return values.length
  return values === 'release' || values === 'chain' ? 1 : configured[values]
}

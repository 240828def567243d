import { definitionOf } from '../../../../src/metrics/definitions.js'
import { endpointNames } from '../../../../src/api/endpoints.js'
import { seriesFor, replicaNames, type ExpectedSeries, type KnownTraffic, singleSeries } from '../known-traffic.js'
import { quantileOf } from '../quantiles.js'
import { rules } from './rules.js'
import { type SentRequest } from '../expected-traffic.js'

const endpoints = [...endpointNames, 'other'] as const
const bounds = [...definitionOf('varve_pruned_distance_versions').bounds ?? [], Infinity]
const isLost = ({ pruned }: SentRequest): boolean => pruned !== undefined && pruned.answer !== 'cache'
const head = ({ environment }: KnownTraffic): number => Number(environment.upstreams.whole.ledger.head.version)
const oldest = ({ environment }: KnownTraffic): number => Number(environment.upstreams.whole.ledger.oldest.version)
const lowestRead = ({ scene }: KnownTraffic): number => Number(scene.lowest)
const blocks = ({ environment: { upstreams: { whole: { ledger } } } }: KnownTraffic): number =>
  Number(ledger.head.blockHeight - ledger.oldest.blockHeight)
const pace = (k: KnownTraffic, of: 'head' | 'oldest'): number => k.environment.growth.rate(of, k.at - k.seconds, k.at)
// Allows 5 %: half-second scrapes and a block delay of 250 ms distort the regression line.
const about = (value: number): [number, number] => [value * 0.95, value * 1.05]
const fallsOut = (k: KnownTraffic): [number, number] => about((lowestRead(k) - oldest(k)) / pace(k, 'oldest'))
const distances = (k: KnownTraffic): Array<[number, number]> =>
  bounds.map((
    bound,
    at
  ) => [
    bound,
    k.count(({ pruned }) => pruned !== undefined && pruned.below <= bound && pruned.below > (bounds[at - 1] ?? 0))
  ])
const byInstance = (k: KnownTraffic, value: number): ExpectedSeries[] =>
  seriesFor('instance', replicaNames.map(who => k.instance(who)), () => value)

/** Predictions for every query of this dashboard. */
export const history: Record<string, (k: KnownTraffic) => ExpectedSeries[]> = {
  'Lost/A': k => singleSeries(k.count(isLost)),
  'Pruned but cached/A': k => singleSeries(k.count(({ pruned }) => pruned?.answer === 'cache')),
  'Window/A': k => singleSeries(head(k) - oldest(k)),
  'Window in time/A': k => singleSeries(about((head(k) - oldest(k)) / pace(k, 'head'))),
  'Margin above the window\'s end/A': k => singleSeries(lowestRead(k) - oldest(k)),
  'Pruned in/A': k => singleSeries(fallsOut(k)),
  'Reads of pruned history by source/A': k =>
    seriesFor(
      'answer',
      ['cache', 'local', 'upstream'],
      of => k.count(({ pruned }) => pruned?.answer === of) / k.seconds
    ),
  '410 by endpoint/A': k =>
    seriesFor('endpoint', endpoints, of => k.count(sent => isLost(sent) && sent.endpoint === of) / k.seconds),
  'Distance below the window/A': k =>
    bounds.map(bound => ({
      labels: { le: bound === Infinity ? '+Inf' : String(bound) },
      value: k.count(({ pruned }) => pruned !== undefined && pruned.below <= bound)
    })),
  'Distance below the window, p50 and p90/A': k => singleSeries(quantileOf(0.5, distances(k))),
  'Distance below the window, p50 and p90/B': k => singleSeries(quantileOf(0.9, distances(k))),
  'Distance below the window, p90 by endpoint/A': k =>
    singleSeries(quantileOf(0.9, distances(k)), { endpoint: 'block_by_version' }),
  'Versions/A': k => singleSeries(head(k)),
  'Versions/B': k => singleSeries(oldest(k)),
  'Versions/C': k => singleSeries(lowestRead(k)),
  'Window in versions/A': k => byInstance(k, head(k) - oldest(k)),
  'Window in blocks/A': k => byInstance(k, blocks(k)),
  // Expects the least of the replicas, which is the same at all that read old versions.
  'Pruned in, over time/A': k => singleSeries(rules['instance:varve_history_left:seconds']?.(k)[0]?.value ?? NaN),
  'Growth and pruning/A': k => singleSeries(about(pace(k, 'head'))),
  'Growth and pruning/B': k => singleSeries(about(pace(k, 'oldest')))
}

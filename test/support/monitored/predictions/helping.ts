import { endpointNames } from '../../../../src/api/endpoints.js'
import { followComparisons } from '../../../../src/follow/follow-comparer.js'
import { tailResults } from '../../../../src/follow/tail-reader.js'
import { touchAllReasons } from '../../../../src/follow/transaction-digest.js'
import { verifyResults } from '../../../../src/follow/verify-write-sets.js'
import { outcomeNames } from '../../../../src/proxy/outcomes.js'
import {
  seriesFor,
  type ExpectedSeries,
  hasSeries,
  replicaNames,
  type KnownTraffic,
  singleSeries,
  scaled
} from '../known-traffic.js'
import { quantileBounds, quantilesFor } from '../quantiles.js'
import { rules } from './rules.js'
import { type SentRequest } from '../expected-traffic.js'

const isHit = ({ outcome }: SentRequest): boolean => outcome.startsWith('hit_')
const isSaved = (sent: SentRequest): boolean => isHit(sent) || sent.outcome === 'collapsed'
const isCacheable = (sent: SentRequest): boolean => isSaved(sent) || sent.outcome === 'miss'
const isOwnError = ({ outcome }: SentRequest): boolean =>
  ['gone', 'rejected', 'limited', 'unavailable'].includes(outcome)
const endpoints = [...endpointNames, 'other'] as const
// Lists the endpoints with cacheable reads in the scenario.
const read = ['table_item', 'account_modules', 'account_events', 'block_by_version', 'estimate_gas_price'] as const
const statuses = (
  k: KnownTraffic,
  is: (sent: SentRequest) => boolean = () => true
): string[] => [...new Set(k.sent.filter(is).map(({ status }) => String(status)))]
// Bounds the slowest quantile of the kinds of hits of a replica.
const slowestHit = (k: KnownTraffic, instance: string): [number, number] => {
  const quantiles = outcomeNames.filter(name => name.startsWith('hit_')).map(outcome =>
    quantileBounds(0.99, k, sent => sent.instance === instance && sent.outcome === outcome)
  ).filter(bounds => typeof bounds !== 'number')
  return [Math.max(...quantiles.map(([least]) => least)), Math.max(...quantiles.map(([, most]) => most))]
}
// One replica follows, and reads nothing, because no latest read comes to it.
const unknownHead = (k: KnownTraffic): ExpectedSeries[] => singleSeries(NaN, { instance: k.instance('second') })

/** Predictions for every query of this dashboard. */
export const helping: Record<string, (k: KnownTraffic) => ExpectedSeries[]> = {
  'Hit rate/A': k => singleSeries(k.count(isHit) / k.count(isCacheable)),
  'Reads saved/A': k => singleSeries(k.count(isSaved)),
  'Requests/A': k => singleSeries(k.count()),
  'Upstream requests/A': k => singleSeries(k.upstreamRequests('all')),
  '5xx responses/A': k => singleSeries(k.count(({ status }) => status >= 500) / k.count()),
  '429 responses/A': k => singleSeries(k.count(({ status }) => status === 429)),
  'Requests by replica/A': k => rules['instance:varve_requests:rate5m']?.(k) ?? [],
  'Hit rate by replica/A': k => rules['instance:varve_hit:ratio_rate5m']?.(k) ?? [],
  'Reads saved by replica/A': k => rules['instance:varve_upstream_reads_saved:rate5m']?.(k) ?? [],
  // One upstream is always down.
  'Level by replica/A': k => seriesFor('instance', replicaNames.map(who => k.instance(who)), () => [0, 2]),
  '5xx by replica/A': k => rules['instance:varve_requests_failed:ratio_rate5m']?.(k) ?? [],
  'p99 of hits by replica/A': k =>
    seriesFor('instance', replicaNames.map(who => k.instance(who)), of => slowestHit(k, of)),
  'Requests by outcome/A': k =>
    seriesFor(
      'outcome',
      outcomeNames.filter(of => hasSeries(k, ({ outcome }) => outcome === of)),
      of => k.count(({ outcome }) => outcome === of) / k.seconds
    ),
  'Hit rate by endpoint/A': k =>
    seriesFor(
      'endpoint',
      read,
      of =>
        k.count(sent => sent.endpoint === of && isHit(sent)) /
        k.count(sent => sent.endpoint === of && isCacheable(sent))
    ),
  'Reads saved and upstream requests/A': k => singleSeries(k.count(isSaved) / k.seconds),
  'Reads saved and upstream requests/B': k => singleSeries(scaled(k.upstreamRequests('all'), 1 / k.seconds)),
  'Requests by endpoint/A': k =>
    seriesFor(
      'endpoint',
      endpoints.filter(of => hasSeries(k, ({ endpoint }) => endpoint === of)),
      of => k.count(({ endpoint }) => endpoint === of) / k.seconds
    ),
  'Upstream requests by endpoint/A': k =>
    seriesFor('endpoint', [...read, 'other'], of => scaled(k.upstreamRequests('all', of), 1 / k.seconds)),
  'Median by outcome/A': k => quantilesFor(k, 'outcome', outcomeNames, 0.5),
  'p99 by outcome/A': k => quantilesFor(k, 'outcome', outcomeNames, 0.99),
  'p99 by endpoint/A': k => quantilesFor(k, 'endpoint', endpoints, 0.99),
  'Responses by status/A': k =>
    seriesFor('status', statuses(k), of => k.count(({ status }) => String(status) === of) / k.seconds),
  'Errors of varve by status/A': k =>
    seriesFor(
      'status',
      statuses(k, isOwnError),
      of => k.count(sent => isOwnError(sent) && String(sent.status) === of) / k.seconds
    ),
  'Followed head/A': unknownHead,
  'Lag of the followed head/A': unknownHead,
  'Followed hits/A': () => singleSeries(0),
  'Readings of the tail/A': () => seriesFor('result', tailResults, () => 0),
  'Transactions read/A': () => singleSeries(0),
  'Bytes read/A': () => singleSeries(0),
  'Everything changed/A': () => seriesFor('reason', touchAllReasons, () => 0),
  'Observed latest reads/A': () => seriesFor('result', followComparisons, () => 0),
  'Verified pages/A': () => seriesFor('result', verifyResults, () => 0),
  'Clients with a key/A': k => singleSeries(k.count(({ client }) => client === 'app') / k.seconds, { client: 'app' })
}

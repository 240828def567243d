import { X509Certificate } from 'node:crypto'
import { certificate } from '../../certificate.js'
import { outcomeNames } from '../../../../src/proxy/outcomes.js'
import { endpointNames } from '../../../../src/api/endpoints.js'
import {
  replicaNames,
  type ExpectedSeries,
  hasSeries,
  type KnownTraffic,
  singleSeries,
  type ExpectedValue,
  type ReplicaName
} from '../known-traffic.js'
import { quantileBounds } from '../quantiles.js'
import { type SentRequest } from '../expected-traffic.js'

const endpoints = [...endpointNames, 'other'] as const
const upstreamsOf = {
  first: ['whole', 'behind', 'dead', 'strange'],
  second: ['whole', 'behind', 'dead', 'strange'],
  tight: ['whole']
} as const
type Name = typeof upstreamsOf.first[number]
type Is = (sent: SentRequest) => boolean

const isHit: Is = ({ outcome }) => outcome.startsWith('hit_')
const isSaved: Is = sent => isHit(sent) || sent.outcome === 'collapsed'
const isKeepable: Is = sent => isSaved(sent) || sent.outcome === 'miss'
const isFailed: Is = ({ status }) => status >= 500
const isForwarded: Is = ({ outcome }) => outcome === 'forwarded'
const isLost: Is = ({ pruned }) => pruned !== undefined && pruned.answer !== 'cache'
const all: Is = () => true

const by = (
  k: KnownTraffic,
  value: (who: ReplicaName) => ExpectedValue,
  more: Record<string, string> = {}
): ExpectedSeries[] => replicaNames.map(who => ({ labels: { instance: k.instance(who), ...more }, value: value(who) }))
const byUpstream = (
  k: KnownTraffic,
  value: (of: Name, who: ReplicaName) => ExpectedValue,
  more: Record<string, string> = {}
): ExpectedSeries[] =>
  replicaNames.flatMap(who =>
    upstreamsOf[who].map(of => ({
      labels: { instance: k.instance(who), upstream: of, ...more },
      value: value(of, who)
    }))
  )
const byEndpoint = (k: KnownTraffic, value: (who: ReplicaName, endpoint: string) => ExpectedValue): ExpectedSeries[] =>
  endpoints.flatMap(endpoint =>
    by(k, who => value(who, endpoint), { endpoint }).filter(({ labels: { instance } }) =>
      hasSeries(k, sent => sent.instance === instance && sent.endpoint === endpoint && isKeepable(sent))
    )
  )
// Drops series without requests, which are not recorded.
const known = (foretold: ExpectedSeries[]): ExpectedSeries[] => foretold.filter(({ value }) => !Number.isNaN(value))
const count = (k: KnownTraffic, who: ReplicaName, is: Is): number =>
  k.count(sent => sent.instance === k.instance(who) && is(sent))
const rate = (k: KnownTraffic, who: ReplicaName, is: Is): number => count(k, who, is) / k.seconds
const part = (k: KnownTraffic, who: ReplicaName, is: Is, of: Is): number => count(k, who, is) / count(k, who, of)
const fact = (k: KnownTraffic, who: ReplicaName, of: string, owner: ReplicaName): number =>
  who === owner ? k.expectedIncrease(who, k.facts.countOf(of)) : 0
const of = (endpoint: string, is: Is): Is => sent => sent.endpoint === endpoint && is(sent)

const head = ({ environment }: KnownTraffic, upstream: Name = 'whole'): number =>
  upstream === 'strange' ? NaN : Number(environment.upstreams[upstream].ledger.head.version)
const oldest = ({ environment }: KnownTraffic): number => Number(environment.upstreams.whole.ledger.oldest.version)
const lowestRead = ({ scene }: KnownTraffic): number => Number(scene.lowest)
const pace = (k: KnownTraffic, of: 'head' | 'oldest'): number => k.environment.growth.rate(of, k.at - k.seconds, k.at)
// Allows 20 % less: one of the two ranges of the slower pace begins a second before the chain resumes.
const slowerPace = (k: KnownTraffic): [number, number] => [pace(k, 'oldest') * 0.8, pace(k, 'oldest') * 1.05]
const between = (least: number, most: number): [number, number] => [least, most]
// Expects less from the second replica, which has fewer reads of old versions.
const above = (
  k: KnownTraffic,
  who: ReplicaName
): [number, number] => [lowestRead(k) - oldest(k), (who === 'second' ? head(k) : lowestRead(k)) - oldest(k)]
const historyLeft = (k: KnownTraffic): ExpectedSeries[] =>
  by(k, who => between(above(k, who)[0] / slowerPace(k)[1], above(k, who)[1] / slowerPace(k)[0]))
const lag = (k: KnownTraffic): ExpectedSeries[] =>
  byUpstream(
    k,
    upstream =>
      upstream === 'strange'
        ? NaN
        : between(
          (head(k) - head(k, upstream)) / pace(k, 'head') * 0.9,
          (head(k) - head(k, upstream)) / pace(k, 'head') * 1.1
        )
  )
const errors = (k: KnownTraffic): ExpectedSeries[] =>
  byUpstream(k, (upstream, who) => upstream === 'dead' ? 1 : upstream === 'whole' && who === 'first' ? [0.001, 0.2] : 0)
const isUp = (upstream: Name): number => Number(upstream === 'whole' || upstream === 'behind')
const p99 = (k: KnownTraffic, is: Is): ExpectedValue => quantileBounds(0.99, k, is)
const job = (k: KnownTraffic, is: Is = all): ExpectedSeries[] =>
  singleSeries(k.count(sent => isHit(sent) && is(sent)) / k.count(sent => isKeepable(sent) && is(sent)))
const never = (k: KnownTraffic): ExpectedSeries[] => by(k, () => 0)
const certificateLeft = (k: KnownTraffic): ExpectedSeries[] =>
  singleSeries(Date.parse(new X509Certificate(certificate).validTo) / 1000 - k.at, { instance: k.instance('tight') })

/** Predictions for every recording rule and alert expression. */
export const rules: Record<string, (k: KnownTraffic) => ExpectedSeries[]> = {
  'instance_endpoint:varve_reads_cacheable:rate5m': k =>
    byEndpoint(k, (who, endpoint) => rate(k, who, of(endpoint, isKeepable))),
  'instance_endpoint:varve_reads_hit:rate5m': k => byEndpoint(k, (who, endpoint) => rate(k, who, of(endpoint, isHit))),
  'instance_endpoint:varve_hit:ratio_rate5m': k =>
    known(byEndpoint(k, (who, endpoint) => part(k, who, of(endpoint, isHit), of(endpoint, isKeepable)))),
  'instance:varve_hit:ratio_rate5m': k => by(k, who => part(k, who, isHit, isKeepable)),
  'job_endpoint:varve_hit:ratio_rate5m': k =>
    known(
      endpoints.flatMap(endpoint => job(k, of(endpoint, all)).map(({ value }) => ({ labels: { endpoint }, value })))
    ),
  'job:varve_hit:ratio_rate5m': k => job(k),
  'instance:varve_upstream_reads_saved:rate5m': k => by(k, who => rate(k, who, isSaved)),
  'job:varve_upstream_reads_saved:rate5m': k => singleSeries(k.count(isSaved) / k.seconds),
  'instance:varve_requests:rate5m': k => by(k, who => rate(k, who, all)),
  'instance_outcome:varve_request_duration_seconds:p99_rate5m': k =>
    known(
      outcomeNames.flatMap(outcome =>
        by(k, who => p99(k, sent => sent.instance === k.instance(who) && sent.outcome === outcome), { outcome })
      )
    ),
  'job_outcome:varve_request_duration_seconds:p99_rate5m': k =>
    known(outcomeNames.map(outcome => ({ labels: { outcome }, value: p99(k, sent => sent.outcome === outcome) }))),
  'instance:varve_requests_failed:ratio_rate5m': k => by(k, who => part(k, who, isFailed, all)),
  'instance_upstream:varve_upstream_requests:rate5m': k =>
    byUpstream(k, upstream => [0, k.upstreamRequests(upstream)[1] / k.seconds]),
  'instance_upstream:varve_upstream_errors:ratio_rate5m': errors,
  'instance_upstream:varve_upstream_lag:seconds': lag,
  'instance:varve_ledger_oldest_version:min_deriv30m': k => by(k, () => slowerPace(k)),
  'instance:varve_history_left:seconds': historyLeft,
  'instance:varve_lowest_requested:ratio': k =>
    by(k, who => between(above(k, who)[0] / (head(k) - oldest(k)), above(k, who)[1] / (head(k) - oldest(k)))),
  VarveDown: k => by(k, () => 1),
  VarveAbsent: () => [],
  VarveRestarts: never,
  VarveNotReady: k => by(k, () => head(k)),
  VarveReadsFailing: k => by(k, who => part(k, who, isFailed, all)),
  VarveLevelRed: k => by(k, () => [0, 2]),
  VarveLevelAmber: k => by(k, () => [0, 2]),
  VarveNoUpstreamUp: k => by(k, () => 1),
  VarveUpstreamDown: k => byUpstream(k, isUp),
  VarveUpstreamQuarantined: k => byUpstream(k, upstream => Number(upstream === 'strange'), { state: 'quarantined' }),
  VarveUpstreamBackingOff: k => byUpstream(k, () => 0, { state: 'backing_off' }),
  VarveUpstreamLagging: lag,
  VarveUpstreamErrors: errors,
  VarveReadsQueued: k => byUpstream(k, () => 0),
  VarveUpstreamSlotsExhausted: k => singleSeries([0.001, 0.2], { instance: k.instance('tight'), upstream: 'whole' }),
  VarveStreamsHoldSlots: k => byUpstream(k, () => [0, 1]),
  VarvePositionStale: k => by(k, () => [0, k.seconds]),
  // Expects a block each 200 ms at two scrapes a second; during paused reads the head does not move.
  VarveHeadStalled: k => by(k, () => [4, 2 * k.seconds]),
  VarveStaleLatest: k =>
    by(k, who => fact(k, who, 'stale', 'first') / count(k, who, isForwarded)).filter(({ labels: { instance } }) =>
      hasSeries(k, sent => sent.instance === instance && isForwarded(sent))
    ),
  VarveChainReset: never,
  VarveHistoryLost: k => by(k, who => rate(k, who, isLost)),
  VarveHistoryEndsInADay: historyLeft,
  VarveHistoryEndsInAnHour: historyLeft,
  VarveHitRateFell: k => job(k),
  VarveCacheTooSmall: k =>
    by(k, who => who === 'tight' ? [1, k.seconds * 10] : [Infinity, Infinity], { tier: 'memory' }),
  VarveAuditMismatch: k => by(k, who => fact(k, who, 'audits different', 'second'), { result: 'different' }),
  VarveFollowDifferent: k => [{ labels: { instance: k.instance('second'), result: 'different' }, value: 0 }],
  VarveFollowInterrupted: k => [{ labels: { instance: k.instance('second') }, value: NaN }],
  VarveRedisDown: k => by(k, () => 1),
  VarveRedisErrors: k => by(k, who => who === 'second' ? [0.001, 0.2] : 0),
  // No replica has a disk tier.
  VarveDiskDropsEntries: () => [],
  VarveCorruptEntries: k => by(k, who => fact(k, who, 'corrupt', 'second')),
  VarveSheddingLoad: never,
  VarveInFlightBytesExhausted: k => by(k, () => 0),
  VarveEventLoopLagging: k => by(k, () => [0, 2]),
  VarveConnectionsFull: never,
  VarveClientsLimited: k =>
    by(
      k,
      who =>
        (fact(k, who, 'limited by key', 'first') + fact(k, who, 'limited by address', 'tight')) / count(k, who, all)
    ),
  VarveDescriptorsExhausted: never,
  VarveLogLinesLost: never,
  VarveUnhandledFailure: k => ['request', 'rejection', 'exception'].flatMap(kind => by(k, () => 0, { kind })),
  VarveWorkerLost: never,
  VarveReloadRejected: k => by(k, () => 1),
  VarveCertificateExpiresInTwoWeeks: certificateLeft,
  VarveCertificateExpiresInTwoDays: certificateLeft,
  VarveMemoryGrows: k => by(k, () => [k.process.memory * 0.5, k.process.memory * 1.5])
}

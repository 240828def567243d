import { versionWaitResults } from '../../../../src/chain/version-waits.js'
import { hedgeResults } from '../../../../src/upstreams/hedger.js'
import {
  seriesFor,
  type ExpectedSeries,
  type KnownTraffic,
  singleSeries,
  scaled,
  type ExpectedValue
} from '../known-traffic.js'
import { hangingOnFirst, queuedOnTight } from '../limited-replica.js'
import { tightConcurrent } from '../monitored-environment.js'

const names = ['whole', 'behind', 'dead', 'strange'] as const
type Name = typeof names[number]
const byUpstream = (value: (of: Name) => ExpectedValue): ExpectedSeries[] => seriesFor('upstream', names, value)
const head = ({ environment }: KnownTraffic, of: Name): number =>
  of === 'strange' ? NaN : Number(environment.upstreams[of].ledger.head.version)
const oldest = ({ environment }: KnownTraffic, of: Name): number =>
  of === 'strange' ? NaN : Number(environment.upstreams[of].ledger.oldest.version)
// Adds varve's own requests, eight per replica at most.
const withPolls = (value: number, replicas: number): [number, number] => [value, value + 8 * replicas]
const isSlow = (of: Name): boolean => of === 'whole' || of === 'behind'
// Assumes that half of a slow upstream's requests are polls; on two cores all may wait longer.
const median = (of: Name): ExpectedValue => [isSlow(of) ? 0.05 : 0, 0.25]
// Includes the rehearsal: hanging reads were released before the span, but may finish late on a busy machine.
const longest = ({ sent, rehearsed }: KnownTraffic): number =>
  Math.max(2.5, ...[...sent, ...rehearsed].map(({ seconds }) => 2 * seconds))
const slowest = (k: KnownTraffic, of: Name): ExpectedValue => [of === 'whole' ? 0.1 : isSlow(of) ? 0.05 : 0, longest(k)]
const failures: ReadonlyArray<readonly [Name, string]> = [['whole', 'no_slot'], ['whole', '500'], ['dead', 'truncated']]
const failed = (k: KnownTraffic, status: string): ExpectedValue => {
  if (status === 'no_slot') return k.expectedIncrease('tight', k.facts.countOf('no_slot')) / k.seconds
  return status === '500'
    ? k.expectedIncrease('first', k.facts.countOf('stale')) / k.seconds
    : scaled(k.upstreamRequests('dead'), 1 / k.seconds)
}

/** Predictions for every query of this dashboard. */
export const upstreams: Record<string, (k: KnownTraffic) => ExpectedSeries[]> = {
  // Counts the limited replica's only upstream.
  'Upstreams up/A': () => singleSeries(1),
  'Upstreams up/B': () => singleSeries(4),
  'Quarantined/A': () => singleSeries(1),
  'Position age/A': k => singleSeries([0, k.seconds]),
  // Reads use all slots but one, which is free for polls.
  'Busiest upstream/A': () => singleSeries([tightConcurrent / (tightConcurrent + 1), 1]),
  'Stale latest/A': k => singleSeries(k.expectedIncrease('first', k.facts.countOf('stale'))),
  'Chain resets/A': () => singleSeries(0),
  'State/A': () => byUpstream(of => ({ whole: 1, behind: 1, dead: 5, strange: 4 })[of]),
  'Failures/A': k => failures.map(([upstream, status]) => ({ labels: { upstream, status }, value: failed(k, status) })),
  'Upstream requests by status/A': k => [
    ...seriesFor('status', ['no_slot', '500', 'truncated'], status => failed(k, status)),
    { labels: { status: '410' }, value: k.count(({ pruned }) => pruned?.answer === 'upstream') / k.seconds },
    {
      labels: { status: '200' },
      value: [
        0,
        (k.upstreamRequests('whole')[1] + k.upstreamRequests('behind')[1] + k.upstreamRequests('strange')[1]) /
        k.seconds
      ]
    },
    // Expects the upstream that lost a hedge, which varies; the first count of a series is invisible.
    {
      labels: { status: 'cancelled' },
      value: [0, k.expectedIncrease('second', k.facts.countOf('hedges won')) / k.seconds]
    }
  ],
  'Position/A': k => byUpstream(of => head(k, of)),
  'Lag/A': k => byUpstream(of => head(k, 'whole') - head(k, of)),
  'Lag in time/A': () => byUpstream(of => of === 'strange' ? NaN : [0, 1e9]),
  'Oldest version/A': k => byUpstream(of => oldest(k, of)),
  'Window/A': k => byUpstream(of => head(k, of) - oldest(k, of)),
  'Latency/A': () => byUpstream(median),
  'Latency/B': k => byUpstream(of => slowest(k, of)),
  'Requests by upstream/A': k => byUpstream(of => scaled(k.upstreamRequests(of), 1 / k.seconds)),
  'Hedges/A': k =>
    seriesFor(
      'result',
      hedgeResults,
      of => of === 'won' ? k.expectedIncrease('second', k.facts.countOf('hedges won')) / k.seconds : 0
    ),
  'In flight by upstream/A': () =>
    byUpstream(of => of === 'whole' ? withPolls(hangingOnFirst + tightConcurrent, 2) : withPolls(0, 2)),
  'In flight by upstream/B': () => byUpstream(of => of === 'whole' ? 2 * 256 + tightConcurrent + 1 : 2 * 256),
  'Queued/A': () => byUpstream(of => of === 'whole' ? withPolls(queuedOnTight, 1) : 0),
  'Slots held by streams/A': () => byUpstream(() => 0),
  'Slots held by streams/B': () => byUpstream(() => 0),
  'No slot/A': k => singleSeries(failed(k, 'no_slot'), { upstream: 'whole' }),
  'Waits for a version/A': k =>
    seriesFor(
      'result',
      versionWaitResults,
      of => k.expectedIncrease('first', k.facts.countOf(`waits ${of}`)) / k.seconds
    ),
  'Waits for a version/B': () => singleSeries(0)
}

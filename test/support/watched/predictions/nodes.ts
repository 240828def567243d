import { arrivalResults } from '../../../../src/chain/arrivals.js'
import { hedgeResults } from '../../../../src/upstreams/hedges.js'
import { each, type Foretold, type Known, one, scaled, type Value } from '../known.js'
import { hangingAtFirst, waitingAtTight } from '../short-replica.js'
import { tightConcurrent } from '../stage.js'

const names = ['whole', 'behind', 'dead', 'strange'] as const
type Name = typeof names[number]
const byNode = (value: (of: Name) => Value): Foretold[] => each('upstream', names, value)
const head = ({ stage }: Known, of: Name): number =>
  of === 'strange' ? NaN : Number(stage.nodes[of].ledger.head.version)
const oldest = ({ stage }: Known, of: Name): number =>
  of === 'strange' ? NaN : Number(stage.nodes[of].ledger.oldest.version)
// Varve asks each node of itself beside all that clients do, eight times at once at most.
const withPolls = (value: number, replicas: number): [number, number] => [value, value + 8 * replicas]
const isSlow = (of: Name): boolean => of === 'whole' || of === 'behind'
// Half of what the slow ones are asked are polls, and more than one in a hundred of what the whole one is asked are
// modules; two cores may make all of it wait longer.
const median = (of: Name): Value => [isSlow(of) ? 0.05 : 0, 0.25]
// Whatever hung was let go before the span, and on a busy machine it may have been answered late.
const longest = ({ sent, rehearsed }: Known): number =>
  Math.max(2.5, ...[...sent, ...rehearsed].map(({ seconds }) => 2 * seconds))
const slowest = (k: Known, of: Name): Value => [of === 'whole' ? 0.1 : isSlow(of) ? 0.05 : 0, longest(k)]
const failures: ReadonlyArray<readonly [Name, string]> = [['whole', 'busy'], ['whole', '500'], ['dead', 'cut_short']]
const failed = (k: Known, status: string): Value => {
  if (status === 'busy') return k.counted('tight', k.facts.of('busy')) / k.seconds
  return status === '500' ? k.counted('first', k.facts.of('stale')) / k.seconds : scaled(k.asked('dead'), 1 / k.seconds)
}

/** What every query of this dashboard is. */
export const nodes: Record<string, (k: Known) => Foretold[]> = {
  // The short replica has one.
  'Nodes that answer/A': () => one(1),
  'Nodes that answer/B': () => one(4),
  'Fenced/A': () => one(1),
  'Position age/A': k => one([0, k.seconds]),
  'Busiest node/A': () => one(1),
  'Stale latest/A': k => one(k.counted('first', k.facts.of('stale'))),
  'Chain resets/A': () => one(0),
  'State/A': () => byNode(of => ({ whole: 1, behind: 1, dead: 5, strange: 4 })[of]),
  'What went wrong/A': k =>
    failures.map(([upstream, status]) => ({ labels: { upstream, status }, value: failed(k, status) })),
  'Answers by status/A': k => [
    ...each('status', ['busy', '500', 'cut_short'], status => failed(k, status)),
    { labels: { status: '410' }, value: k.count(({ pruned }) => pruned?.answer === 'upstream') / k.seconds },
    {
      labels: { status: '200' },
      value: [0, (k.asked('whole')[1] + k.asked('behind')[1] + k.asked('strange')[1]) / k.seconds]
    },
    // Of the node that a hedge has left aside; which one it is differs, and the first of a series is not seen.
    { labels: { status: 'taken_back' }, value: [0, k.counted('second', k.facts.of('hedges won')) / k.seconds] }
  ],
  'Position/A': k => byNode(of => head(k, of)),
  'Lag/A': k => byNode(of => head(k, 'whole') - head(k, of)),
  'Oldest version/A': k => byNode(of => oldest(k, of)),
  'Window/A': k => byNode(of => head(k, of) - oldest(k, of)),
  'Latency/A': () => byNode(median),
  'Latency/B': k => byNode(of => slowest(k, of)),
  'Asked, by node/A': k => byNode(of => scaled(k.asked(of), 1 / k.seconds)),
  'Hedges/A': k =>
    each('result', hedgeResults, of => of === 'won' ? k.counted('second', k.facts.of('hedges won')) / k.seconds : 0),
  'Under way, by node/A': () =>
    byNode(of => of === 'whole' ? withPolls(hangingAtFirst + tightConcurrent, 2) : withPolls(0, 2)),
  'Under way, by node/B': () => byNode(of => of === 'whole' ? 2 * 256 + tightConcurrent : 2 * 256),
  'Waiting for a turn/A': () => byNode(of => of === 'whole' ? withPolls(waitingAtTight, 1) : 0),
  'Had no turn/A': k => one(failed(k, 'busy'), { upstream: 'whole' }),
  'Waits for a version/A': k =>
    each('result', arrivalResults, of => k.counted('first', k.facts.of(`waits ${of}`)) / k.seconds),
  'Waits for a version/B': () => one(0)
}

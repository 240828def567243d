import { rowOf } from '../../../../src/metrics/list.js'
import { endpointNames } from '../../../../src/api/endpoints.js'
import { each, everyone, type Foretold, type Known, one } from '../known.js'
import { quantileOf } from '../quantiles.js'
import { type Sent } from '../sent.js'

const endpoints = [...endpointNames, 'other'] as const
const bounds = [...rowOf('varve_pruned_distance_versions').bounds ?? [], Infinity]
const isLost = ({ pruned }: Sent): boolean => pruned !== undefined && pruned.answer !== 'cache'
const head = ({ stage }: Known): number => Number(stage.nodes.whole.ledger.head.version)
const oldest = ({ stage }: Known): number => Number(stage.nodes.whole.ledger.oldest.version)
const asked = ({ scene }: Known): number => Number(scene.lowest)
const blocks = ({ stage: { nodes: { whole: { ledger } } } }: Known): number =>
  Number(ledger.head.blockHeight - ledger.oldest.blockHeight)
const pace = (k: Known, of: 'head' | 'oldest'): number => k.stage.growth.pace(of, k.at - k.seconds, k.at)
// Prometheus looks twice a second and a replica hears of a block a quarter of a second later: the line through what it
// saw is not quite the line through what was.
const about = (value: number): [number, number] => [value * 0.95, value * 1.05]
const fallsOut = (k: Known): [number, number] => about((asked(k) - oldest(k)) / pace(k, 'oldest'))
const distances = (k: Known): Array<[number, number]> =>
  bounds.map((
    bound,
    at
  ) => [
    bound,
    k.count(({ pruned }) => pruned !== undefined && pruned.below <= bound && pruned.below > (bounds[at - 1] ?? 0))
  ])
const byInstance = (k: Known, value: number): Foretold[] =>
  each('instance', everyone.map(who => k.instance(who)), () => value)

/** What every query of this dashboard is. */
export const history: Record<string, (k: Known) => Foretold[]> = {
  'Lost/A': k => one(k.count(isLost)),
  'Saved from being lost/A': k => one(k.count(({ pruned }) => pruned?.answer === 'cache')),
  'Window/A': k => one(head(k) - oldest(k)),
  'Window in time/A': k => one(about((head(k) - oldest(k)) / pace(k, 'head'))),
  'Oldest asked for, above the end/A': k => one(asked(k) - oldest(k)),
  'Falls out in/A': k => one(fallsOut(k)),
  'Reads of pruned history, by who answered/A': k =>
    each('answer', ['cache', 'local', 'upstream'], of => k.count(({ pruned }) => pruned?.answer === of) / k.seconds),
  '410 by endpoint/A': k =>
    each('endpoint', endpoints, of => k.count(sent => isLost(sent) && sent.endpoint === of) / k.seconds),
  'How far below the window/A': k =>
    bounds.map(bound => ({
      labels: { le: bound === Infinity ? '+Inf' : String(bound) },
      value: k.count(({ pruned }) => pruned !== undefined && pruned.below <= bound)
    })),
  'How far below the window, by part of the reads/A': k => one(quantileOf(0.5, distances(k))),
  'How far below the window, by part of the reads/B': k => one(quantileOf(0.9, distances(k))),
  'Nine in ten by endpoint/A': k =>
    each('endpoint', endpoints, of => of === 'block_by_version' ? quantileOf(0.9, distances(k)) : NaN),
  'Versions/A': k => one(head(k)),
  'Versions/B': k => one(oldest(k)),
  'Versions/C': k => one(asked(k)),
  'Window in versions/A': k => byInstance(k, head(k) - oldest(k)),
  'Window in blocks/A': k => byInstance(k, blocks(k)),
  'Falls out in, over time/A': k => one(fallsOut(k)),
  'Pace/A': k => one(about(pace(k, 'head'))),
  'Pace/B': k => one(about(pace(k, 'oldest')))
}

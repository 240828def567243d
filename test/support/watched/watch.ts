import { type Asked, askedNow, everyone, type Known, prolonged } from './known.js'
import { play, type Played } from './play.js'
import { type Stage } from './stage.js'

/**
 * A query as Grafana would send it, for all replicas or those that a pattern names, over a span that is the whole of
 * what was watched.
 */
export function asked (expression: string, range: string, instance = '.*'): string {
  return expression.replaceAll('$instance', instance).replaceAll('$__rate_interval', range).replaceAll(
    '$__range',
    range
  )
}

/** What is known of a span, what still hangs in it, and how the span is written. */
export interface Watched {
  readonly known: Known
  readonly range: string
  readonly played: Played
}

/**
 * Has everything befall reads twice, and watches the second time: a series of a status begins when it is first counted,
 * and Prometheus knows of no growth before a beginning. What is counted is still before the span and after it, so that
 * what Prometheus sees in it is all of the play and nothing else.
 */
export async function watch (stage: Stage): Promise<Watched> {
  const { prometheus } = stage
  const rehearsal = await play(stage, { above: 600, event: 500, network: 1 })
  await rehearsal.letGo()
  const before = askedNow(stage)
  const began = Date.now() / 1000
  await prometheus.scraped(began)
  const settled = askedNow(stage)
  const processor = process.cpuUsage()
  const played = await play(stage, { above: 420, event: 540, network: 2 })
  const sent = [...played.scene.traffic.all]
  const ended = askedNow(stage)
  await prometheus.scraped(Date.now() / 1000)
  const at = Date.now() / 1000
  const { user, system } = process.cpuUsage(processor)
  const after = askedNow(stage)
  const seconds = Math.ceil((at - began) * 1000) / 1000
  const range = `${Math.round(seconds * 1000)}ms`
  const stretch = await prolonged(prometheus, range, seconds, at)
  const instances = new Map(everyone.map(who => [who, new URL(stage[who].adminUrl).host]))
  const instance: Known['instance'] = who => instances.get(who) ?? ''
  const stretchOf = (host: string): number => stretch.get(host) ?? NaN
  const factors = [...stretch.values()]
  const known: Known = {
    stage,
    scene: played.scene,
    facts: played.scene.facts,
    sent,
    rehearsed: rehearsal.scene.traffic.all,
    seconds,
    at,
    instance,
    counted: (who, count) => count * stretchOf(instance(who)),
    count: (is = () => true) => sent.filter(is).reduce((sum, { instance }) => sum + stretchOf(instance), 0),
    asked: (node, endpoint) => [
      // What hangs is asked and not answered, so it is not counted yet.
      Math.max(0, total(ended, node, endpoint) - total(settled, node, endpoint) - 20) * Math.min(...factors),
      // Reads that found no turn were counted, and not asked.
      (total(after, node, endpoint) - total(before, node, endpoint) + 2) * Math.max(...factors)
    ],
    process: { cpu: (user + system) / 1e6, memory: process.memoryUsage.rss() }
  }
  return { known, range, played }
}

function total (counts: Asked, node: keyof Asked | 'all', endpoint?: string): number {
  const those = node === 'all' ? Object.values(counts) : [counts[node]]
  return those.flatMap(one => Object.entries(one)).filter(([name]) =>
    endpoint === undefined || labelOf(name) === endpoint
  ).reduce((sum, [, count]) => sum + count, 0)
}

// What varve asks for itself has no label of its own.
function labelOf (endpoint: string): string {
  return ['table_item', 'account_modules', 'account_events', 'block_by_version', 'estimate_gas_price', 'info'].includes(
      endpoint
    )
    ? endpoint
    : 'other'
}

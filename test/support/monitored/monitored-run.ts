import {
  type RequestCounts,
  readRequestCounts,
  replicaNames,
  type KnownTraffic,
  extrapolated
} from './known-traffic.js'
import { runScenario, type ScenarioRun } from './run-scenario.js'
import { type MonitoredEnvironment } from './monitored-environment.js'

/**
 * A query as Grafana would send it, for all replicas or those that a pattern names, over a span that is the whole of
 * what was watched.
 */
export function expandQuery (expression: string, range: string, instance = '.*'): string {
  return expression.replaceAll('$instance', instance).replaceAll('$__rate_interval', range).replaceAll(
    '$__range',
    range
  )
}

/** What is known of a span, what still hangs in it, and how the span is written. */
export interface MonitoredRun {
  readonly known: KnownTraffic
  readonly range: string
  readonly scenarioRun: ScenarioRun
}

/**
 * Has everything befall reads twice, and watches the second time: a series of a status begins when it is first counted,
 * and Prometheus knows of no growth before a beginning. What is counted is still before the span and after it, so that
 * what Prometheus sees in it is all of the play and nothing else.
 */
export async function runMonitored (environment: MonitoredEnvironment): Promise<MonitoredRun> {
  const { prometheus } = environment
  const rehearsal = await runScenario(environment, { above: 600, event: 500, network: 1 })
  await rehearsal.release()
  const before = readRequestCounts(environment)
  const began = Date.now() / 1000
  await prometheus.untilScraped(began)
  const settled = readRequestCounts(environment)
  const processor = process.cpuUsage()
  const scenarioRun = await runScenario(environment, { above: 420, event: 540, network: 2 })
  const sent = [...scenarioRun.scene.traffic.requests]
  const ended = readRequestCounts(environment)
  await prometheus.untilScraped(Date.now() / 1000)
  const at = Date.now() / 1000
  const { user, system } = process.cpuUsage(processor)
  const after = readRequestCounts(environment)
  const seconds = Math.ceil((at - began) * 1000) / 1000
  const range = `${Math.round(seconds * 1000)}ms`
  const stretch = await extrapolated(prometheus, range, seconds, at)
  const instances = new Map(replicaNames.map(who => [who, new URL(environment[who].adminUrl).host]))
  const instance: KnownTraffic['instance'] = who => instances.get(who) ?? ''
  const stretchOf = (host: string): number => stretch.get(host) ?? NaN
  const factors = [...stretch.values()]
  const known: KnownTraffic = {
    environment,
    scene: scenarioRun.scene,
    facts: scenarioRun.scene.facts,
    sent,
    rehearsed: rehearsal.scene.traffic.requests,
    seconds,
    at,
    instance,
    expectedIncrease: (who, count) => count * stretchOf(instance(who)),
    count: (is = () => true) => sent.filter(is).reduce((sum, { instance }) => sum + stretchOf(instance), 0),
    upstreamRequests: (node, endpoint) => [
      // What hangs is asked and not answered, so it is not counted yet.
      Math.max(0, total(ended, node, endpoint) - total(settled, node, endpoint) - 20) * Math.min(...factors),
      // Reads that found no turn were counted, and not asked.
      (total(after, node, endpoint) - total(before, node, endpoint) + 2) * Math.max(...factors)
    ],
    process: { cpu: (user + system) / 1e6, memory: process.memoryUsage.rss() }
  }
  return { known, range, scenarioRun }
}

function total (counts: RequestCounts, node: keyof RequestCounts | 'all', endpoint?: string): number {
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

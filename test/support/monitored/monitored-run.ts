import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type RequestCounts,
  readRequestCounts,
  replicaNames,
  type KnownTraffic,
  extrapolated
} from './known-traffic.js'
import { readRules } from '../prometheus-rules.js'
import { overRange } from './over-range.js'
import { type SentRequest } from './expected-traffic.js'
import { runScenario, type ScenarioRun } from './run-scenario.js'
import { type MonitoredEnvironment } from './monitored-environment.js'

const rules = readRules(readFileSync(join(import.meta.dirname, '../../../config/prometheus-rules.yml'), 'utf8'))

/** Patterns of what is chosen on a dashboard; all by default. */
export interface Choice {
  readonly chain?: string
  readonly instance?: string
  readonly upstream?: string
  readonly endpoint?: string
}

/** Expands the variables of a query as Grafana does; recorded series stay. */
export function expandVariables (expression: string, range: string, choice: Choice = {}): string {
  return expression.replace(
    /\$(job|chain|instance|upstream|endpoint)\b/g,
    (_, name: string) => choice[name as keyof Choice] ?? '.*'
  ).replaceAll('$__rate_interval', range).replaceAll('$__range', range)
}

/** Expands a query over the whole monitored span; its recorded series are replaced by their rules. */
export function expandQuery (expression: string, range: string, choice?: Choice): string {
  const expanded = expandVariables(expression, range, choice)
  return /:varve_/.test(expanded) ? overRange(expanded, range, rules) : expanded
}

/** Knowledge about a span, reads that still hang, and the span as text. */
export interface MonitoredRun {
  /** Traffic of the three replicas of one chain. */
  readonly known: KnownTraffic
  /** Traffic of the replica of the other chain, and that of all four. */
  readonly besides: KnownTraffic
  readonly together: KnownTraffic
  readonly range: string
  readonly scenarioRun: ScenarioRun
}

/**
 * Runs the scenario twice and monitors the second run: a status series begins with its first count, and Prometheus sees
 * no increase before. Counters rest before and after the span, so an increase contains the whole run only.
 */
export async function runMonitored (environment: MonitoredEnvironment): Promise<MonitoredRun> {
  const { prometheus } = environment
  // Rehearses far above: the window moves by five blocks a second, and must not reach the same region in the run.
  const rehearsal = await runScenario(environment, { above: 750, event: 500, network: 1 })
  await rehearsal.release()
  const before = readRequestCounts(environment)
  const began = Date.now() / 1000
  await prometheus.untilScraped(began)
  const settled = readRequestCounts(environment)
  const processor = process.cpuUsage()
  const scenarioRun = await runScenario(environment, { above: 420, event: 540, network: 2 })
  // Copies, because hanging reads are added when they are released.
  const sent = [...scenarioRun.scene.traffic.requests]
  const sentBeside = scenarioRun.scene.beside.requests
  const { traffic: { requests: rehearsed }, beside: { requests: rehearsedBeside } } = rehearsal.scene
  const ended = readRequestCounts(environment)
  await prometheus.untilScraped(Date.now() / 1000)
  const at = Date.now() / 1000
  // A scrape that is under way has a time before `at`, and would lengthen the span after its factors are read.
  await prometheus.untilScraped(at)
  const { user, system } = process.cpuUsage(processor)
  const after = readRequestCounts(environment)
  const seconds = Math.ceil((at - began) * 1000) / 1000
  const range = `${Math.round(seconds * 1000)}ms`
  const stretch = await extrapolated(prometheus, range, seconds, at)
  const instances = new Map(replicaNames.map(who => [who, new URL(environment[who].adminUrl).host]))
  const instance: KnownTraffic['instance'] = who => instances.get(who) ?? ''
  const stretchOf = (host: string): number => stretch.get(host) ?? NaN
  const factors = [...instances.values()].map(stretchOf)
  const knownOf = (those: readonly SentRequest[], earlier: readonly SentRequest[]): KnownTraffic => ({
    environment,
    scene: scenarioRun.scene,
    facts: scenarioRun.scene.facts,
    sent: those,
    rehearsed: earlier,
    seconds,
    at,
    instance,
    expectedIncrease: (who, count) => count * stretchOf(instance(who)),
    count: (is = () => true) => those.filter(is).reduce((sum, { instance }) => sum + stretchOf(instance), 0),
    upstreamRequests: (upstream, endpoint) => [
      // Subtracts hanging reads, which are not counted before their response.
      Math.max(0, total(ended, upstream, endpoint) - total(settled, upstream, endpoint) - 20) * Math.min(...factors),
      // Includes reads without a slot, which are counted but not sent.
      (total(after, upstream, endpoint) - total(before, upstream, endpoint) + 2) * Math.max(...factors)
    ],
    process: { cpu: (user + system) / 1e6, memory: process.memoryUsage.rss() }
  })
  return {
    known: knownOf(sent, rehearsed),
    besides: knownOf(sentBeside, rehearsedBeside),
    together: knownOf([...sent, ...sentBeside], [...rehearsed, ...rehearsedBeside]),
    range,
    scenarioRun
  }
}

function total (counts: RequestCounts, upstream: keyof RequestCounts | 'all', endpoint?: string): number {
  const those = upstream === 'all' ? Object.values(counts) : [counts[upstream]]
  return those.flatMap(one => Object.entries(one)).filter(([name]) =>
    endpoint === undefined || labelOf(name) === endpoint
  ).reduce((sum, [, count]) => sum + count, 0)
}

// Maps endpoints to labels; varve's own requests have none.
function labelOf (endpoint: string): string {
  return ['table_item', 'account_modules', 'account_events', 'block_by_version', 'estimate_gas_price', 'info'].includes(
      endpoint
    )
    ? endpoint
    : 'other'
}

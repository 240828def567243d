import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { ConfigReloader } from '../src/app/config-reloader.js'
import { versionOfProgram } from '../src/app/version.js'
import { endpointLabels } from '../src/metrics/definitions.js'
import { makeGauge } from '../src/metrics/metric-factories.js'
import { dashboards, queries } from './support/dashboards.js'
import { type Series } from './support/prometheus.js'
import { isAlert, readRules } from './support/prometheus-rules.js'
import { until } from './support/until.js'
import { type TestVarve } from './support/varve.js'
import {
  type ExpectedSeries,
  matchesExpected,
  type KnownTraffic,
  replicaNames
} from './support/monitored/known-traffic.js'
import { helping } from './support/monitored/predictions/helping.js'
import { history } from './support/monitored/predictions/history.js'
import { upstreams } from './support/monitored/predictions/nodes.js'
import { rules } from './support/monitored/predictions/rules.js'
import { varve } from './support/monitored/predictions/varve.js'
import { comparedExpression, overRange } from './support/monitored/over-range.js'
import { chainIds, shopClient, startMonitoredEnvironment } from './support/monitored/monitored-environment.js'
import { type Choice, expandQuery, expandVariables, runMonitored } from './support/monitored/monitored-run.js'

const predictions: Record<string, Record<string, (known: KnownTraffic) => ExpectedSeries[]>> = {
  helping,
  history,
  upstreams,
  varve
}

// Queries without data of the other chain, whose replica has neither Redis nor TLS and failed no request.
const absentBeside = [
  'varve/Redis/A',
  'varve/Certificate expires in/A',
  'varve/Redis reachable/A',
  'varve/Redis operations/A',
  'varve/Redis errors/A',
  'varve/Redis latency/A',
  'upstreams/Failures/A',
  'upstreams/No slot/A'
]
// Queries whose values follow from the requests of clients alone.
const ofClients = [
  'Hit rate/A',
  'Reads saved/A',
  'Requests/A',
  'Requests by outcome/A',
  'Requests by endpoint/A',
  'Responses by status/A'
]

t.test('every query of every panel returns what known traffic of three replicas predicts', async t => {
  const stage = await startMonitoredEnvironment(t)
  const { prometheus } = stage
  const { known, besides, together, range, scenarioRun } = await runMonitored(stage)
  const otherInstance = new URL(stage.other.adminUrl).host
  const variables = [...dashboards().values()][0]?.templating.list ?? []
  const valuesOf = async (name: string, choice: Choice): Promise<string[]> => {
    const definition = variables.find(variable => variable.name === name)?.definition ?? ''
    const [, selector = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(definition) ?? []
    return await prometheus.labelValues(expandVariables(selector, range, choice), label)
  }
  const replicasOf = async (chain: string): Promise<Choice> => ({
    instance: (await valuesOf('instance', { chain })).join('|')
  })
  const [chosen, chosenBeside] = [await replicasOf(chainIds.own), await replicasOf(chainIds.other)]

  await t.test('the variables lead from a chain to its replicas, upstreams and endpoints', async t => {
    t.same(await valuesOf('job', {}), ['varve'])
    t.same(await valuesOf('chain', {}), [chainIds.own, chainIds.other])
    t.same(chosen.instance?.split('|'), replicaNames.map(known.instance).sort())
    t.same(chosenBeside, { instance: otherInstance })
    t.same(await valuesOf('upstream', chosen), ['behind', 'dead', 'strange', 'whole'])
    t.same(await valuesOf('upstream', chosenBeside), ['elsewhere'])
    t.same(await valuesOf('endpoint', chosenBeside), [...endpointLabels].sort())
  })

  await t.test('each query has a prediction, and each prediction a query', async t => {
    t.same(
      Object.entries(predictions).flatMap(([board, table]) => Object.keys(table).map(at => `${board}/${at}`)).sort(),
      queries().map(({ at }) => at).sort()
    )
  })

  for (const { at, expr } of queries()) {
    await t.test(at, async t => {
      const [board = '', ...rest] = at.split('/')
      const foretold = predictions[board]?.[rest.join('/')]?.(known) ?? []
      areAs(t, await prometheus.query(expandQuery(expr, range, chosen), known.at), foretold)
    })
  }

  await t.test('every recording rule and every alert expression returns what known traffic predicts', async t => {
    const all = readRules(readFileSync(join(import.meta.dirname, '../config/prometheus-rules.yml'), 'utf8'))
    t.same(all.map(rule => isAlert(rule) ? rule.alert : rule.record), Object.keys(rules), 'each has a prediction')
    for (const rule of all) {
      await t.test(isAlert(rule) ? rule.alert : rule.record, async t => {
        const measured = await prometheus.query(
          overRange(isAlert(rule) ? comparedExpression(rule.expr) : rule.expr, range, all),
          known.at
        )
        // Series of a job have the requests of both chains; others of the other chain have no prediction.
        const own = measured.filter(({ labels: { instance } }) => instance !== otherInstance)
        areAs(t, own, rules[isAlert(rule) ? rule.alert : rule.record]?.(together) ?? [])
        // Expects the conditions to pass series through unchanged.
        const left = await prometheus.query(overRange(rule.expr, range, all), known.at)
        const values = new Map(measured.map(({ labels, points }) => [nameOf(labels), points[0]?.[1]]))
        for (const { labels, points } of left) {
          t.ok(Object.is(points[0]?.[1], values.get(nameOf(labels))), nameOf(labels))
        }
      })
    }
  })

  await t.test('each query covers the chosen replicas only', async t => {
    for (const { at, expr } of queries()) {
      const ofOne = await prometheus.query(expandQuery(expr, range, { instance: known.instance('tight') }), known.at)
      for (const { labels } of ofOne) {
        if ('instance' in labels) t.equal(labels['instance'], known.instance('tight'), at)
      }
      const none = await prometheus.query(expandQuery(expr, range, { instance: 'nothing' }), known.at)
      t.ok(none.every(({ points }) => points[0]?.[1] === 0), `${at}: nothing but 0 without replicas`)
    }
  })

  await t.test('each query can be drawn over time', async t => {
    for (const { at, expr } of queries()) {
      const drawn = await prometheus.queryRange(expandQuery(expr, '3s'), {
        start: known.at - known.seconds,
        end: known.at,
        step: 1
      })
      t.ok(drawn.length > 0 || expr.includes('deriv'), at)
    }
  })

  await t.test('each query covers the chosen upstreams and endpoints only', async t => {
    const choice = { ...chosen, upstream: 'whole', endpoint: 'table_item' }
    for (const { at, expr } of queries()) {
      for (const { labels } of await prometheus.query(expandQuery(expr, range, choice), known.at)) {
        t.match(
          { upstream: 'whole', endpoint: 'table_item', ...labels },
          { upstream: 'whole', endpoint: 'table_item' },
          at
        )
      }
    }
  })

  await t.test('of two chains at once each query returns the chosen one', async t => {
    const ofOther = {
      instance: otherInstance,
      upstream: 'elsewhere',
      client: shopClient.name,
      chain_id: chainIds.other
    }
    for (const { at, expr } of queries()) {
      const series = await prometheus.query(expandQuery(expr, range, chosenBeside), known.at)
      t.equal(series.length > 0, !absentBeside.includes(at), `${at} has data`)
      for (const { labels } of series) t.match({ ...ofOther, ...labels }, ofOther, at)
    }
    const [full = ''] = queries().flatMap(({ at, expr }) => at === 'varve/Memory full/A' ? [expr] : [])
    const used = await stage.other.metric('varve_cache_bytes{tier="memory"}') ?? NaN
    const most = await stage.other.metric('varve_cache_max_bytes{tier="memory"}') ?? NaN
    const share = await prometheus.query(expandQuery(full, range, chosenBeside), known.at)
    areAs(t, share, [{ labels: {}, value: used / most }])
    for (const title of ofClients) {
      const expr = queries().find(({ at }) => at === `helping/${title}`)?.expr ?? ''
      areAs(
        t,
        await prometheus.query(expandQuery(expr, range, chosenBeside), known.at),
        predictions['helping']?.[title]?.(besides) ?? []
      )
    }
  })

  await t.test('panels draw the series that the rules record, each of its own chain', async t => {
    const span = { start: known.at - known.seconds, end: known.at, step: 1 }
    const ofRules = queries().filter(({ expr }) => expr.includes(':varve_'))
    t.ok(ofRules.length >= 8)
    for (const { at, expr } of ofRules) {
      for (const choice of [chosen, chosenBeside]) {
        const drawn = await prometheus.queryRange(expandVariables(expr, range, choice), span)
        // The forecast compares two half hours, here half minutes, which is as long as the whole run.
        t.ok(drawn.length > 0 || expr.includes('history_left'), at)
        for (const { labels: { instance, upstream } } of drawn) {
          t.ok(instance === undefined || choice.instance?.split('|').includes(instance), at)
          t.equal(upstream === 'elsewhere', upstream !== undefined && choice === chosenBeside, at)
        }
      }
    }
  })
  await scenarioRun.release()

  await t.test('annotations mark a reload, a chain reset and a release on its replica, at any step', async t => {
    const { first, second, tight, other, upstreams: { elsewhere } } = stage
    const began = Date.now() / 1000
    await prometheus.untilScraped(began)
    const setRelease = ({ metrics: { registry } }: TestVarve, version?: string): void => {
      registry.removeSingleMetric('varve_build_info')
      if (version !== undefined) makeGauge(registry, 'varve_build_info', () => [[{ version }, 1]])
    }
    // A restart misses a scrape, and is no other release.
    setRelease(tight)
    await prometheus.untilScraped(Date.now() / 1000)
    setRelease(tight, versionOfProgram())
    const load = (): never => {
      throw new Error('a mistake')
    }
    new ConfigReloader(load, Promise.resolve(first), first.metrics, pino({ level: 'silent' })).reload()
    elsewhere.faults.add({ kind: 'otherChain' })
    // Stands in for another release, of which there is none.
    setRelease(second, 'next')
    await until(async () => await other.metric('varve_chain_resets_total') === 1, 'the chain reset is counted')
    t.equal(await first.metric('varve_config_reloads_total{result="rejected"}'), 1)
    await prometheus.untilScraped(Date.now() / 1000)
    const ended = Date.now() / 1000
    const marks = {
      Reloads: { ...chosen, labels: { instance: known.instance('first'), result: 'rejected' } },
      'Chain resets': { ...chosenBeside, labels: { instance: otherInstance } },
      Releases: { ...chosen, labels: { instance: known.instance('second'), version: 'next' } }
    }
    for (const { name, target: { expr } } of [...dashboards().values()][0]?.annotations.list ?? []) {
      const { labels, ...choice } = marks[name as keyof typeof marks]
      const marked = async (choice: Choice, start: number): Promise<Series[]> =>
        await prometheus.queryRange(
          // Grafana's $__rate_interval is its step and one scrape more, at least four scrapes.
          expandVariables(expr, '4500ms', choice).replaceAll('$__interval', '4s'),
          { start, end: ended + 5, step: 4 }
        )
      // Wherever the steps are, one of them sees the event.
      for (let shift = 0; shift < 4; shift += 0.25) {
        const series = await marked(choice, began + shift)
        t.same(series.map(({ labels: { job, __name__, ...own } }) => own), [labels], `${name}, steps ${shift} s later`)
      }
      const elsewhere = choice.instance === otherInstance ? chosen : chosenBeside
      t.same(await marked(elsewhere, began), [], `${name} of the other chain`)
    }
  })

  await t.test('a Redis outage shows on every replica, with its errors', async () => {
    const query = (title: string): string =>
      expandQuery(queries().find(({ at }) => at === `varve/${title}/A`)?.expr ?? '', range)
    await stage.redis.kill()
    // A scrape that failed leaves no series, which says nothing.
    await until(async () => {
      const reachable = await prometheus.query(query('Redis reachable'))
      return reachable.length === replicaNames.length && reachable.every(({ points }) => points[0]?.[1] === 0)
    }, 'no replica reaches Redis')
    await until(
      async () => (await prometheus.query(query('Redis')))[0]?.points[0]?.[1] === 0,
      'the worst replica counts'
    )
    await until(
      async () =>
        (await prometheus.query(query('Redis errors'))).some(({ labels, points }) =>
          labels['operation'] === 'connect' && (points[0]?.[1] ?? 0) > 0
        ),
      'failed connects to Redis are counted'
    )
  })
})

function areAs (t: Test, series: readonly Series[], foretold: readonly ExpectedSeries[]): void {
  const found = new Map(series.map(({ labels, points }) => [nameOf(labels), points[0]?.[1] ?? NaN]))
  t.same([...found.keys()].sort(), foretold.map(({ labels }) => nameOf(labels)).sort(), 'its series')
  for (const { labels, value } of foretold) {
    const is = found.get(nameOf(labels)) ?? NaN
    t.ok(matchesExpected(is, value), `${nameOf(labels)} is ${is}, and should be ${JSON.stringify(value)}`)
  }
}

function nameOf ({ job: _job, __name__: _name, ...labels }: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).sort())
}

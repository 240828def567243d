import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { metricList } from '../src/metrics/definitions.js'
import { queries, selectorsIn } from './support/dashboards.js'
import { type Series } from './support/prometheus.js'
import { isAlert, readRules } from './support/prometheus-rules.js'
import { until } from './support/until.js'
import { type ExpectedSeries, matchesExpected, type KnownTraffic } from './support/monitored/known-traffic.js'
import { helping } from './support/monitored/predictions/helping.js'
import { history } from './support/monitored/predictions/history.js'
import { upstreams } from './support/monitored/predictions/nodes.js'
import { rules } from './support/monitored/predictions/rules.js'
import { varve } from './support/monitored/predictions/varve.js'
import { comparedExpression, overRange } from './support/monitored/over-range.js'
import { startMonitoredEnvironment } from './support/monitored/monitored-environment.js'
import { expandQuery, runMonitored } from './support/monitored/monitored-run.js'

const predictions: Record<string, Record<string, (known: KnownTraffic) => ExpectedSeries[]>> = {
  helping,
  history,
  upstreams,
  varve
}

const diskMetrics = new Set<string>(metricList.filter(({ tier }) => tier === 'disk').map(({ name }) => name))

t.test('every query of every panel returns what known traffic of three replicas predicts', async t => {
  const stage = await startMonitoredEnvironment(t)
  const { prometheus } = stage
  const { known, range, scenarioRun } = await runMonitored(stage)

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
      areAs(t, await prometheus.query(expandQuery(expr, range), known.at), foretold)
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
        areAs(t, measured, rules[isAlert(rule) ? rule.alert : rule.record]?.(known) ?? [])
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
      const chosen = await prometheus.query(expandQuery(expr, range, known.instance('tight')), known.at)
      for (const { labels } of chosen) {
        if ('instance' in labels) t.equal(labels['instance'], known.instance('tight'), at)
      }
      const none = await prometheus.query(expandQuery(expr, range, 'nothing'), known.at)
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
      // No replica has a disk tier, so its series do not exist.
      const isOfDisk = selectorsIn(expr).every(({ metric }) => diskMetrics.has(metric))
      t.ok(drawn.length > 0 || expr.includes('deriv') || isOfDisk, at)
    }
  })
  await scenarioRun.release()

  await t.test('a Redis outage shows on every replica, with its errors', async t => {
    const query = (title: string): string =>
      expandQuery(queries().find(({ at }) => at === `varve/${title}/A`)?.expr ?? '', range)
    await stage.redis.kill()
    await until(
      async () => (await prometheus.query(query('Redis reachable'))).every(({ points }) => points[0]?.[1] === 0),
      'no replica reaches Redis'
    )
    t.equal((await prometheus.query(query('Redis')))[0]?.points[0]?.[1], 0)
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

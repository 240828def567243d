import t from 'tap'
import { queries } from '../support/dashboards.js'
import { until } from '../support/until.js'
import { type Foretold, isAs, type Known } from '../support/watched/known.js'
import { helping } from '../support/watched/predictions/helping.js'
import { history } from '../support/watched/predictions/history.js'
import { nodes } from '../support/watched/predictions/nodes.js'
import { varve } from '../support/watched/predictions/varve.js'
import { startStage } from '../support/watched/stage.js'
import { asked, watch } from '../support/watched/watch.js'

const predictions: Record<string, Record<string, (known: Known) => Foretold[]>> = { helping, history, nodes, varve }

t.test('every query of every panel is, on a real Prometheus, what the traffic of three replicas foretells', async t => {
  const stage = await startStage(t)
  const { prometheus } = stage
  const { known, range, played } = await watch(stage)

  await t.test('each has a prediction, and each prediction a query', async t => {
    t.same(Object.entries(predictions).flatMap(([board, table]) => Object.keys(table).map(at => `${board}/${at}`)).sort(), queries().map(({ at }) => at).sort())
  })

  for (const { at, expr } of queries()) {
    await t.test(at, async t => {
      const [board = '', ...rest] = at.split('/')
      const foretold = predictions[board]?.[rest.join('/')]?.(known) ?? []
      const series = await prometheus.query(asked(expr, range), known.at)
      const nameOf = ({ job: _job, ...labels }: Record<string, string>): string => JSON.stringify(Object.entries(labels).sort())
      const found = new Map(series.map(({ labels, points }) => [nameOf(labels), points[0]?.[1] ?? NaN]))
      t.same([...found.keys()].sort(), foretold.map(({ labels }) => nameOf(labels)).sort(), 'its series')
      for (const { labels, value } of foretold) {
        const is = found.get(nameOf(labels)) ?? NaN
        t.ok(isAs(is, value), `${nameOf(labels)} is ${is}, and should be ${JSON.stringify(value)}`)
      }
    })
  }

  await t.test('each is of the replicas that are chosen alone', async t => {
    for (const { at, expr } of queries()) {
      const chosen = await prometheus.query(asked(expr, range, known.instance('tight')), known.at)
      for (const { labels } of chosen) if ('instance' in labels) t.equal(labels['instance'], known.instance('tight'), at)
      const none = await prometheus.query(asked(expr, range, 'nobody'), known.at)
      t.ok(none.every(({ points }) => points[0]?.[1] === 0), `${at}: of none nothing but 0`)
    }
  })

  await t.test('each can be drawn over time', async t => {
    for (const { at, expr } of queries()) {
      const drawn = await prometheus.queryRange(asked(expr, '3s'), { start: known.at - known.seconds, end: known.at, step: 1 })
      t.ok(drawn.length > 0 || expr.includes('deriv'), at)
    }
  })
  await played.letGo()

  await t.test('a Redis that is gone is seen on every replica, with its errors', async t => {
    const query = (title: string): string => asked(queries().find(({ at }) => at === `varve/${title}/A`)?.expr ?? '', range)
    await stage.redis.kill()
    await until(async () => (await prometheus.query(query('Redis answers'))).every(({ points }) => points[0]?.[1] === 0), 'no replica has it')
    t.equal((await prometheus.query(query('Redis')))[0]?.points[0]?.[1], 0)
    await until(async () => (await prometheus.query(query('Errors by operation'))).some(({ labels, points }) => labels['operation'] === 'connect' && (points[0]?.[1] ?? 0) > 0), 'it is tried in vain')
  })
})

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { pino } from 'pino'
import { ConfigReloader } from '../src/app/config-reloader.js'
import { versionOfProgram } from '../src/app/version.js'
import { makeGauge } from '../src/metrics/metric-factories.js'
import { type Series, dashboards, isAlert, queries, readRules } from './support/prometheus.js'
import { chainIds, startMonitoredReplicas } from './support/monitored-replicas.js'
import { until } from './support/until.js'
import { type TestVarve } from './support/varve.js'

/** Patterns of what is chosen on a dashboard; all by default. */
type Choice = Partial<Record<'job' | 'chain' | 'instance' | 'upstream' | 'endpoint', string>>

// Queries and series without data in this test, with the reason.
const absent: Readonly<Record<string, string>> = {
  'VarveDescriptorsExhausted of varve_upstream_requests_total{status="exhausted"}':
    'descriptors that are gone are gone for the test too (test/app/process-faults.slow.test.ts has its own process)'
}
const range = '10s'
const waitMs = 40_000
// The slowest rule compares two half hours, here half minutes.
const patientMs = 200_000

const hasNumber = (series: readonly Series[]): boolean =>
  series.some(({ points }) => points.some(([, value]) => Number.isFinite(value)))
const instanceOf = ({ adminUrl }: TestVarve): string => new URL(adminUrl).host

/** Expands the variables of a query as Grafana does. */
function expanded (expression: string, choice: Choice = {}, interval = range): string {
  return expression.replace(
    /\$(job|chain|instance|upstream|endpoint)\b/g,
    (_, name: string) => choice[name as keyof Choice] ?? '.*'
  ).replaceAll('$__rate_interval', interval).replaceAll('$__range', interval).replaceAll('$__interval', '4s')
}

t.test(
  'on a real Prometheus dashboards, rules and alerts show replicas under traffic',
  { timeout: 500_000 },
  async t => {
    const replicas = await startMonitoredReplicas(t)
    const { prometheus, first, second, tight, other } = replicas
    const variables = [...dashboards().values()][0]?.templating.list ?? []
    const valuesOf = async (name: string, choice: Choice): Promise<string[]> => {
      const { definition = '' } = variables.find(variable => variable.name === name) ?? {}
      const [, selector = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(definition) ?? []
      return await prometheus.labelValues(expanded(selector, choice), label)
    }
    const askAll = async (choice: Choice): Promise<Array<{ readonly at: string, readonly series: Series[] }>> =>
      await Promise.all(
        queries().map(async ({ at, expr }) => ({ at, series: await prometheus.query(expanded(expr, choice)) }))
      )
    /** Waits until each expression returns a number; returns the names of those that never do. */
    const withoutNumbers = async (
      expressions: ReadonlyArray<readonly [name: string, expr: string]>
    ): Promise<string[]> => {
      let missing = expressions.filter(([name]) => absent[name] === undefined)
      await until(
        async () => {
          const answers = await Promise.all(missing.map(async ([, expr]) => hasNumber(await prometheus.query(expr))))
          missing = missing.filter((_, at) => answers[at] === false)
          return missing.length === 0
        },
        'every expression returns a number',
        waitMs
      ).catch(() => {})
      return missing.map(([name]) => name)
    }

    await t.test(
      'every query of every panel returns numbers, or has a reason for none',
      { timeout: patientMs },
      async t => {
        t.same(await withoutNumbers(queries().map(({ at, expr }) => [at, expanded(expr)])), [])
      }
    )

    await t.test('the variables lead from a chain to its replicas, upstreams and endpoints', async t => {
      const instances = [first, second, tight].map(instanceOf).sort()
      t.same(await valuesOf('job', {}), ['varve'])
      t.same(await valuesOf('chain', {}), [chainIds.own, chainIds.other])
      t.same(await valuesOf('instance', { chain: chainIds.own }), instances)
      t.same(await valuesOf('instance', { chain: chainIds.other }), [instanceOf(other)])
      t.same(await valuesOf('upstream', { instance: instances.join('|') }), ['behind', 'dead', 'strange', 'whole'])
      t.ok((await valuesOf('endpoint', { instance: instanceOf(first) })).includes('block_by_version'))
    })

    await t.test(
      'each query covers the chosen replicas, upstreams and endpoints only',
      { timeout: patientMs },
      async t => {
        for (
          const choice of [
            { instance: instanceOf(tight) },
            { instance: instanceOf(other), upstream: 'elsewhere' },
            { upstream: 'whole', endpoint: 'table_item' }
          ]
        ) {
          for (const { at, series } of await askAll(choice)) {
            for (const { labels } of series) t.match({ ...choice, ...labels }, choice, at)
          }
        }
        for (const { at, series } of await askAll({ instance: 'nothing' })) {
          t.ok(series.every(({ points }) => points[0]?.[1] === 0), `${at}: nothing but 0 without replicas`)
        }
      }
    )

    await t.test(
      'every rule is evaluated, recorded, and watches series that varve has',
      { timeout: patientMs },
      async t => {
        const rules = readRules(readFileSync(join(import.meta.dirname, '../config/prometheus-rules.yml'), 'utf8'))
        const watched = rules.filter(isAlert).flatMap(({ alert, expr }) =>
          [...expr.matchAll(/\b(?:\w+:)?(?:varve|process|nodejs)_[\w:]+(?:\{[^}]*\})?/g)].map(
            ([series]) => [`${alert} of ${series}`, `last_over_time(${series}[1m])`] as const
          )
        )
        const recorded = rules.flatMap(rule => isAlert(rule) ? [] : [[rule.record, rule.record] as const])
        t.same(await withoutNumbers([...recorded, ...watched]), [])
        for (const { name, health, lastError } of await prometheus.rules()) {
          t.equal(
            health,
            'ok',
            `${name}: ${lastError}`
          )
        }
        t.same(
          await prometheus.query(`ALERTS{instance="${instanceOf(other)}",alertstate="firing"}`),
          [],
          'a healthy replica'
        )
      }
    )

    await t.test('annotations mark a reload, a chain reset and a release on its replica, at any step', async t => {
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
      replicas.upstreams.elsewhere.faults.add({ kind: 'otherChain' })
      // Stands in for another release, of which there is none.
      setRelease(second, 'next')
      await until(async () => await other.metric('varve_chain_resets_total') === 1, 'the chain reset is counted')
      await prometheus.untilScraped(Date.now() / 1000)
      const end = Date.now() / 1000 + 5
      const marks = {
        Reloads: { of: first, labels: { result: 'rejected' } },
        'Chain resets': { of: other, labels: {} },
        Releases: { of: second, labels: { version: 'next' } }
      }
      for (const { name, target: { expr } } of [...dashboards().values()][0]?.annotations.list ?? []) {
        const { of, labels } = marks[name as keyof typeof marks]
        // Wherever the steps are, one of them sees the event; Grafana's $__rate_interval is a step and one scrape more.
        for (let shift = 0; shift < 4; shift += 0.5) {
          const span = { start: began + shift, end, step: 4 }
          const marked = await prometheus.queryRange(expanded(expr, {}, '4500ms'), span)
          t.same(
            marked.map(({ labels: { job, __name__, ...own } }) => own),
            [{ instance: instanceOf(of), ...labels }],
            `${name}, steps ${shift} s later`
          )
        }
      }
    })

    await t.test('alerts fire for what is wrong, with their annotations filled in', { timeout: patientMs }, async t => {
      await replicas.redis.kill()
      await tight.stop({ drainMs: 0 })
      const expected: ReadonlyArray<readonly [alert: string, of: TestVarve, labels: Record<string, string>]> = [
        ['VarveUpstreamDown', first, { upstream: 'dead' }],
        ['VarveUpstreamQuarantined', first, { upstream: 'strange' }],
        ['VarveHistoryLost', first, {}],
        ['VarveLevelAmber', first, {}],
        ['VarveReloadRejected', first, {}],
        ['VarveRedisDown', second, {}],
        ['VarveChainReset', other, {}],
        ['VarveDown', tight, {}]
      ]
      for (const [alert, of, labels] of expected) {
        const text = Object.entries({ alertname: alert, instance: instanceOf(of), ...labels }).map(([name, value]) =>
          `${name}="${value}"`
        ).join()
        await until(
          async () => (await prometheus.query(`ALERTS{${text},alertstate="firing"}`)).length === 1,
          `${alert} fires`,
          waitMs
        ).catch((error: Error) => {
          t.fail(error.message)
        })
      }
      const firing = (await prometheus.rules()).flatMap(({ alerts = [] }) => alerts)
      t.ok(firing.length >= expected.length)
      for (const { annotations } of firing) {
        t.notMatch(Object.values(annotations).join('\n'), /\{\{|<no value>|<error/)
      }
    })

    await t.test('the dashboards show a Redis outage on every replica, with its errors', async () => {
      const valueOf = async (title: string): Promise<number | undefined> =>
        (await prometheus.query(expanded(queries().find(({ at }) => at === `varve/${title}/A`)?.expr ?? '')))[0]
          ?.points[0]
          ?.[1]
      await until(async () => await valueOf('Redis') === 0, 'the worst replica counts')
      await until(async () => (await valueOf('Redis errors') ?? 0) > 0, 'failed connects to Redis are counted')
    })
  }
)

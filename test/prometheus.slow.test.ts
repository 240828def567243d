import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { ConfigReloader } from '../src/app/start-serving.js'
import { versionOfProgram } from '../src/app/io.js'
import { makeGauge } from '../src/metrics/metric-factories.js'
import {
  type Series,
  dashboards,
  isAlert,
  queries,
  readRules,
  type Prometheus,
  startPrometheus
} from './support/prometheus.js'
import { until } from './support/until.js'
import { type TestVarve, varveAt } from './support/varve.js'
import { type Sandbox } from '#sandbox'
import { certificate, certificateKey } from './support/certificate.js'
import { type TestRequest, sendRequest, tableItemLookup } from './support/client.js'
import { type RedisProcess, startRedis } from './support/redis-server.js'
import { blockTarget, startSandboxNode } from './support/replicas.js'
import { testFolder } from './support/test-folder.js'

/** Chain of three replicas, and that of the replica beside them. */
const chainIds = { own: '4', other: '9' }

const key = { name: 'app', key: 'k'.repeat(40) }

/** Replicas under traffic that a Prometheus watches; its rules take a second for each minute. */
interface MonitoredReplicas {
  /** Unpruned; ten blocks behind; dead; on another chain; that of the other chain's replica. */
  readonly upstreams: Readonly<Record<'whole' | 'behind' | 'dead' | 'strange' | 'elsewhere', Sandbox>>
  readonly redis: RedisProcess
  readonly first: TestVarve
  readonly second: TestVarve
  readonly tight: TestVarve
  /** Serves the other chain, has nothing wrong and gets no reads. */
  readonly other: TestVarve
  readonly prometheus: Prometheus
}

/** Starts everything; the chains grow by a block each 200 ms and lose one at the other end. */
async function startMonitoredReplicas (t: Test): Promise<MonitoredReplicas> {
  const chain = { prunedBlocks: 100, windowBlocks: 900, startVersion: 1_000_000n }
  const [whole, behind, dead, strange, elsewhere] = await Promise.all([
    startSandboxNode(t, { ...chain, blocks: 1000 }),
    startSandboxNode(t, { ...chain, blocks: 990 }),
    startSandboxNode(t, { ...chain, blocks: 1000 }),
    startSandboxNode(t, { chainId: Number(chainIds.other) }),
    startSandboxNode(t, { ...chain, blocks: 1000, chainId: Number(chainIds.other) })
  ])
  for (const { faults } of [whole, behind]) faults.add({ kind: 'slow', ms: 60 })
  whole.faults.add({ kind: 'error', code: 'internal_error', status: 500, match: 'account_modules', share: 0.1 })
  const redis = await startRedis(t)
  const dir = testFolder(t)
  const named = { whole, behind, dead, strange }
  const budget = { units: 1_000_000, windowSeconds: 10 }
  const shared = {
    upstreams: Object.entries(named).map(([name, { url }]) => ({
      name,
      url,
      requestsPerSecond: 1000,
      budget
    })) as never,
    head: { pollMs: 250 },
    cache: { redis: { url: redis.url } }
  }
  const first = await varveAt(t, '', { ...shared, clients: { keys: [{ ...key, requestsPerSecond: 1 }] } })
  const second = await varveAt(t, '', {
    ...shared,
    audit: { share: 1 },
    cache: { ...shared.cache, disk: { path: join(dir, 'disk') } },
    follow: { mode: 'observe' },
    hedge: { share: 0.001, afterMs: 400 }
  })
  const tight = await varveAt(t, '', {
    upstreams: [{ name: 'whole', url: whole.url, maxConcurrent: 3 }] as never,
    head: { pollMs: 250 },
    cache: { memory: { maxMb: 1 } },
    pruned: { answerLocally: false },
    trustProxy: ['loopback'],
    limits: { client: { requestsPerSecond: 1, burst: 1 } }
  })
  const tls = { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') }
  writeFileSync(tls.certFile, certificate)
  writeFileSync(tls.keyFile, certificateKey)
  const other = await varveAt(t, '', {
    upstreams: [{ name: 'elsewhere', url: elsewhere.url }] as never,
    head: { pollMs: 250 },
    tls
  })
  for (const varve of [first, second]) {
    await until(
      async () => await varve.metric('varve_upstream_state{upstream="strange",state="quarantined"}') === 1,
      'every upstream was polled'
    )
  }
  dead.faults.add({ kind: 'reset' })
  const rules = join(dir, 'rules.yml')
  writeFileSync(
    rules,
    accelerateRules(readFileSync(join(import.meta.dirname, '../config/prometheus-rules.yml'), 'utf8'))
  )
  const prometheus = await startPrometheus(t, {
    targets: [first, second, tight, other].map(({ adminUrl }) => new URL(adminUrl).host),
    rules: [rules]
  })
  const upstreams = { whole, behind, dead, strange, elsewhere }
  const monitored = { upstreams, redis, first, second, tight, other, prometheus }
  keepBusy(t, monitored)
  return monitored
}

// Spares a busy machine more reads than this at once: its scrapes would fail.
const mostReads = 150

/** Grows the chains and sends every kind of read five times a second, whatever the responses. */
function keepBusy (t: Test, { upstreams, first, second, tight }: MonitoredReplicas): void {
  const { whole, behind, elsewhere } = upstreams
  const { ledger } = whole
  const oldest = ledger.oldest.blockHeight
  const versionAt = (above: number): bigint => ledger.block(oldest + BigInt(above)).firstVersion
  const modules = (version: bigint, limit: number): string =>
    `/v1/accounts/0x1/modules?ledger_version=${version}&limit=${limit}`
  const latest = '/v1/accounts/0x1/modules?limit=1'
  const gone = blockTarget(ledger.oldest.version - 5000n)
  let [nth, reads] = [0, 0]
  const timer = setInterval(() => {
    for (const { ledger } of [whole, behind, elsewhere]) ledger.grow()
    if (reads > mostReads) return
    nth++
    const version = versionAt(600 + nth % 20)
    const send = (varve: TestVarve, target: string, request: TestRequest = {}): void => {
      reads++
      sendRequest(varve.url, target, request).catch(() => {}).finally(() => {
        reads--
      })
    }
    const ofKey = { headers: { 'x-api-key': key.key } }
    const next = { headers: { 'x-varve-min-ledger-version': String(ledger.head.version + 1n) } }
    for (const varve of [first, second]) {
      for (const target of [blockTarget(version), modules(version, 1), latest, '/v1/estimate_gas_price', gone]) {
        send(varve, target)
      }
      send(varve, `/v1/tables/0x1/item?ledger_version=${version}`, tableItemLookup('u64', '"5"'))
    }
    // Three alike are one upstream request; one version leaves the window soon and stays cached.
    for (let many = 0; many < 3; many++) send(first, modules(version, 2 + nth % 900))
    for (const target of [blockTarget(versionAt(20)), '/nowhere']) send(first, target)
    for (let many = 0; many < 2; many++) send(first, latest, ofKey)
    send(first, blockTarget(version), next)
    // Fills the memory; each client but the last has its rate to itself.
    for (let many = 0; many < 4; many++) {
      send(tight, modules(versionAt(700 + nth % 100), 10 + many), { headers: clientHeaders(nth, many) })
    }
    for (const target of [latest, latest, gone]) send(tight, target, { headers: clientHeaders(0, 0) })
    // Exceeds the upstream's slots and the queue for them; equal reads would share a fetch.
    const surplus = nth % 10 === 0 ? 120 : 0
    for (let many = 0; many < surplus; many++) {
      send(tight, modules(version, 100 + many), { headers: clientHeaders(nth, 50 + many) })
    }
  }, 200)
  t.teardown(() => {
    clearInterval(timer)
  })
}

function clientHeaders (nth: number, many: number): Record<string, string> {
  return { 'x-forwarded-for': `10.${nth >> 8}.${nth & 255}.${many}` }
}

const seconds = { m: 1, h: 60, d: 1440 } as const

/**
 * Returns the text of a rules file with each minute of a range or a delay as a second. Thresholds and per-second rates
 * stay, so a test waits seconds for alerts.
 */
function accelerateRules (rules: string): string {
  return rules.replace(
    /(?<=\[|\[\d+[mhd]:|offset |for: )(\d+)([mhd])\b/g,
    (_, count: string, unit: keyof typeof seconds) => `${Number(count) * seconds[unit]}s`
  )
}

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
// Seconds between the points of an annotation's query; the scrapes of a busy machine fail for less.
const stepS = 10

const hasNumber = (series: readonly Series[]): boolean =>
  series.some(({ points }) => points.some(([, value]) => Number.isFinite(value)))
const instanceOf = ({ adminUrl }: TestVarve): string => new URL(adminUrl).host

/** Expands the variables of a query as Grafana does. */
function expanded (expression: string, choice: Choice = {}, interval = range): string {
  return expression.replace(
    /\$(job|chain|instance|upstream|endpoint)\b/g,
    (_, name: string) => choice[name as keyof Choice] ?? '.*'
  ).replaceAll('$__rate_interval', interval).replaceAll('$__range', interval).replaceAll('$__interval', `${stepS}s`)
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
        // A machine that stood still for a second has failed two scrapes, enough for VarveDown at this speed.
        await until(
          async () =>
            (await prometheus.query(`ALERTS{instance="${instanceOf(other)}",alertstate="firing"}`)).length === 0,
          'no alert fires on a healthy replica'
        )
      }
    )

    await t.test('annotations mark a reload, a chain reset and a release on its replica, at any step', async t => {
      await until(
        async () => (await prometheus.query(`varve_build_info offset ${stepS}s`)).length === 4,
        'every replica is known for a step'
      )
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
      const reloader = new ConfigReloader(load, first.metrics, pino({ level: 'silent' }))
      reloader.start(first.reload)
      t.match(await reloader.reload(), { reloaded: false, mistakes: ['a mistake'] })
      replicas.upstreams.elsewhere.faults.add({ kind: 'otherChain' })
      // Stands in for another release, of which there is none.
      setRelease(second, 'next')
      await until(async () => await other.metric('varve_chain_resets_total') === 1, 'the chain reset is counted')
      await prometheus.untilScraped(Date.now() / 1000)
      const end = Date.now() / 1000 + stepS + 1
      const marks = {
        Reloads: { of: first, labels: { result: 'rejected' } },
        'Chain resets': { of: other, labels: {} },
        Releases: { of: second, labels: { version: 'next' } }
      }
      for (const { name, target: { expr } } of [...dashboards().values()][0]?.annotations.list ?? []) {
        const { of, labels } = marks[name as keyof typeof marks]
        // Wherever the steps are, one of them sees the event; Grafana's $__rate_interval is a step and one scrape more.
        for (let shift = 0; shift < stepS; shift++) {
          const span = { start: began + shift, end, step: stepS }
          // A series ends with a scrape that failed, until the next one.
          await until(
            async () => {
              const marked = await prometheus.queryRange(expanded(expr, {}, `${stepS}s500ms`), span)
              const seen = marked.map(({ labels: { job, __name__, ...own } }) => own)
              return isDeepStrictEqual(seen, [{ instance: instanceOf(of), ...labels }])
            },
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
          // An alert on an event may have ended while others were awaited.
          async () => (await prometheus.query(`last_over_time(ALERTS{${text},alertstate="firing"}[10m])`)).length === 1,
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

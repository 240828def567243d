import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { startServing } from '../../src/app/start-serving.js'
import { configSchema } from '../../src/config/schema.js'
import { runCommand } from '../cli/command.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'
import { allPidsOf, pidsOf, quietConfig, requestEachWorker, token, varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const misses = 'varve_requests_total{endpoint="account_modules",outcome="miss",status="200"}'

// Shares one set of processes among these tests, because they are slow to start.
t.test('purges, limits, counts, status and reloads of a worker pool cover all its workers', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, upstream.url, { ...quietConfig, workers: 2, upstream: { timeoutMs: 3000 } })
  const purge = async (body: object): Promise<unknown> =>
    await sendRequest(varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(body)
    })

  const recentTotal = async (): Promise<number> => {
    const { recent } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
      recent: { outcomes: Record<string, number[]> }
    }
    return Object.values(recent.outcomes).flat().reduce((sum, step) => sum + step, 0)
  }

  await t.test('workers share one address, cache separately, and look like one varve to an operator', async t => {
    t.match(await sendRequest(varve.adminUrl, '/readyz'), {
      status: 200,
      body: /^\{"ready":true,"level":"green","degraded":\[\],"headAgeMs":\d+\}$/
    })
    await allPidsOf(varve, 2)
    const seen = await requestEachWorker(varve, modules(2000))
    t.equal(seen.filter(status => status.includes('uri-miss')).length, 2, 'each fetches it once')
    t.equal(seen.filter(status => status.includes('hit')).length, 2)
    t.equal(await varve.metric(misses), 2)
    t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}'), 2)
    t.equal(await varve.metric('varve_request_duration_seconds_count{endpoint="account_modules",outcome="miss"}'), 2)
    t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 2)
    t.equal(await varve.metric('varve_workers'), 2)
    t.ok(
      Math.abs((await varve.metric('process_start_time_seconds') ?? NaN) - (Date.now() / 1000 - process.uptime())) < 2,
      'all start with the first one'
    )
    t.equal(await varve.metric('varve_ledger_version'), Number(upstream.ledger.head.version))
    t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1)
    t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), {
      ready: true,
      position: { version: String(upstream.ledger.head.version) },
      upstreams: [{ name: 'node', state: 'up' }]
    })
  })

  await t.test('all workers show at once a new head that one of them has seen', async t => {
    upstream.ledger.grow(5)
    const head = String(upstream.ledger.head.version)
    t.match(
      await varve.get('/v1/accounts/0x1/modules?limit=1'),
      { headers: { 'x-node-ledger-version': head } },
      'one worker reads the latest state'
    )
    await until(
      async () => {
        const perWorker = []
        for (let nth = 0; nth < 4; nth++) {
          perWorker.push((await varve.get(modules(2000))).headers['x-node-ledger-version'])
        }
        return perWorker.every(version => version === head)
      },
      'every worker stamps hits with the new position',
      2000
    )
  })

  await t.test('a purge reaches every worker before its response; invalid purges fail as in one process', async t => {
    t.ok((await requestEachWorker(varve, modules(2000))).every(status => status.includes('hit')))
    t.match(await purge({ method: 'GET', url: modules(2000) }), {
      status: 200,
      body: '{"purged":true,"everywhere":true}'
    })
    t.equal((await requestEachWorker(varve, modules(2000))).filter(status => status.includes('uri-miss')).length, 2)
    const once = await varve.get(modules(2001))
    t.match(once.headers['cache-status'], /uri-miss/)
    t.match(await purge({ url: modules(2001) }), { body: '{"purged":true,"everywhere":true}' }, 'one worker had it')
    t.match(await purge({ url: modules(2001) }), { body: '{"purged":true,"everywhere":true,"stored":false}' })
    t.match(await purge({ all: true }), { status: 200, body: /"space":"[0-9a-f]{16}"/ })
    t.equal((await requestEachWorker(varve, modules(2000))).filter(status => status.includes('uri-miss')).length, 2)
    t.match(await purge({ method: 'GET' }), { status: 400, body: /invalid_input/ })
    t.match(await sendRequest(varve.adminUrl, '/purge', { method: 'POST', body: '{}' }), { status: 401 })
  })

  await t.test('a client\'s limit counts across all workers', async t => {
    // Binds its own address: Node.js maps all port 0 listeners of one address in a process to one port.
    const limited = await varveAt(t, upstream.url, {
      ...quietConfig,
      listen: '127.0.0.2:0',
      workers: 2,
      limits: { client: { requestsPerSecond: 1, burst: 4 } }
    })
    const began = performance.now()
    const statuses = await Promise.all(
      Array.from({ length: 30 }, async (_, nth) => (await limited.get(modules(1000 + nth))).status)
    )
    const seconds = (performance.now() - began) / 1000
    const okCount = statuses.filter(status => status === 200).length
    t.ok(okCount >= 4 && okCount < 8 + seconds, `${okCount} in ${seconds} s`)
    t.equal(statuses.filter(status => status === 429).length, 30 - okCount)
    t.equal(await limited.metric('varve_limited_total{by="address"}'), 30 - okCount)
  })

  await t.test('a dead worker is replaced, its clients are disconnected at once, and its counts remain', async t => {
    const [counted, recent] = [await varve.metric(misses), await recentTotal()]
    upstream.requests.reset()
    upstream.faults.add({ kind: 'hang', match: 'account_modules' })
    const hanging = [1, 2, 3, 4].map(async version =>
      await varve.get(modules(version)).then(
        ({ status }) => String(status),
        (error: Error & { code?: string }) => String(error.code)
      )
    )
    await until(() => upstream.requests.countFor('account_modules') === 4, 'each worker has a request in flight')
    const [lost = NaN, stays = NaN] = await allPidsOf(varve, 2)
    process.kill(lost, 'SIGKILL')
    t.equal(await Promise.race(hanging), 'ECONNRESET', 'each read on the dead worker')
    await until(async () => {
      const pids = await pidsOf(varve)
      return pids.length === 2 && !pids.includes(lost)
    }, 'another worker has replaced the lost one')
    t.ok((await allPidsOf(varve, 2)).includes(stays), 'the other worker is unaffected')
    t.equal(await varve.metric('varve_workers_lost_total'), 1)
    upstream.faults.clear()
    // Tolerates any distribution: on a busy machine one worker may have more of the connections.
    t.same(
      [...new Set(await Promise.all(hanging))].sort(),
      ['503', 'ECONNRESET'],
      'reads of the other worker run into their timeout'
    )
    t.equal(await varve.metric(misses), counted)
    t.ok(await recentTotal() >= recent, 'recent requests of the dead worker are still shown')
    await requestEachWorker(varve, modules(3000))
    // Counts one miss where the other worker has the entry already.
    t.ok([1, 2].includes((await varve.metric(misses) ?? 0) - (counted ?? 0)))
  })
  await t.test('a new configuration is rolled over the workers; an unusable one is rejected', async t => {
    const before = await allPidsOf(varve, 2)
    const dir = t.testdir({ 'c.pem': 'no certificate', 'k.pem': 'no key' })
    const config = configSchema.parse({
      listen: '127.0.0.1:0',
      upstreams: [{ name: 'node', url: upstream.url }],
      head: { pollMs: 600_000 },
      ...quietConfig,
      workers: 1,
      passThrough: 'none'
    })
    await t.rejects(
      varve.reload({ ...config, tls: { ...config.tls, certFile: `${dir}/c.pem`, keyFile: `${dir}/k.pem` } }),
      /PEM/
    )
    t.same(await allPidsOf(varve, 2), before)
    t.same(
      (await varve.reload({ ...config, admin: { ...config.admin, listen: '127.0.0.2:0' } })).needsRestart,
      ['admin.listen'],
      'keys that need a restart are named'
    )
    const [after = NaN] = await allPidsOf(varve, 1)
    t.notOk(before.includes(after))
    t.match(await varve.get('/v1/spec.json'), { status: 404 })
    t.ok(await varve.metric(misses), 'counts of workers that have left are included')
  })
})

t.test('each line that a worker logs goes to the program that wants its log', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const lines: string[] = []
  const config = configSchema.parse({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    workers: 2,
    upstreams: [{ url: upstream.url }]
  })
  const varve = await startServing({ config, isSandbox: false }, pino({ level: 'silent' }), {
    file: join(import.meta.dirname, '../../dist/cli.js'),
    flags: [],
    onLogLine: line => lines.push(line)
  })
  t.teardown(async () => {
    await varve.stop({ drainMs: 0 })
  })
  const workersOf = (): Set<unknown> => new Set(lines.map(line => (JSON.parse(line) as { worker: number }).worker))
  await until(() => workersOf().size === 2, 'both workers have logged')
  t.ok(lines.every(line => line.indexOf('\n') === line.length - 1), 'each in one line')
})

t.test('a worker cannot be started from the command line', async t => {
  t.match(await runCommand(t, ['worker']), { code: 2, err: /unknown command worker/ })
})

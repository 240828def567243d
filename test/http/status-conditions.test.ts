import t, { type Test } from 'tap'
import { levelOf, withTraffic } from '../../src/http/status-conditions.js'
import { recentFixture } from '../support/status-fixtures.js'
import { sendRequest } from '../support/client.js'
import { Deferred } from '../../src/peers/deferred.js'
import { freePort } from '../support/free-port.js'
import {
  headAt,
  respondOk,
  stamps,
  startChangingUpstream,
  startEmptyUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const read = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const readiness = async (
  { adminUrl }: Pick<TestVarve, 'adminUrl'>
): Promise<{ status: number, body: Record<string, unknown> }> => {
  const { status, body } = await sendRequest(adminUrl, '/readyz')
  return { status, body: JSON.parse(body) as Record<string, unknown> }
}

/** Starts upstreams with these ledger times in seconds, which a test may change, and varve in front of them. */
async function varveAtTimes (t: Test, seconds: readonly number[], maxLagSeconds = 60): Promise<TestVarve> {
  const upstreams = await Promise.all(seconds.map(async (_, at) => {
    const { url } = await startStubUpstream(
      t,
      (_request, response) => respondOk(response, '[]'),
      (_request, response) => {
        const time = seconds[at] ?? NaN
        const headers = stamps({
          'x-aptos-ledger-version': String(time),
          'x-aptos-block-height': String(time - 5),
          'x-aptos-ledger-timestampusec': String(time * 1e6)
        })
        response.writeHead(200, { 'content-type': 'application/json', ...headers }).end('{"git_hash":"aaaa"}')
      }
    )
    return { name: `n${at + 1}`, url, maxLagSeconds }
  }))
  return await varveAt(t, '', { upstreams: upstreams as never, head: { pollMs: 50 } })
}

t.test('a healthy varve is green, in /readyz, /status.json and the metric', async t => {
  const varve = await varveAtTimes(t, [1000, 990])
  await until(async () => (await readiness(varve)).body['level'] === 'green', 'the level is green')
  t.match(await readiness(varve), { status: 200, body: { ready: true, level: 'green', degraded: [] } })
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), { level: 'green', conditions: [] })
  t.equal(await varve.metric('varve_level'), 0)
})

t.test('an upstream that lags beyond maxLagSeconds is amber; one alone never lags', async t => {
  const varve = await varveAtTimes(t, [1000, 700, 690])
  await until(async () => !/not responded/.test(String((await readiness(varve)).body['degraded'])), 'all were polled')
  t.match(await readiness(varve), {
    status: 200,
    body: { level: 'amber', degraded: ['n2 lags by 300 s of ledger time', 'n3 lags by 310 s of ledger time'] }
  })
  t.equal(await varve.metric('varve_level'), 1)
  const patient = await varveAtTimes(t, [1000, 700], 400)
  await until(async () => (await readiness(patient)).body['level'] === 'green', 'a higher limit allows it')
  t.match(await readiness(await varveAtTimes(t, [10])), { body: { level: 'green' } })
})

t.test('/readyz says ready only once an upstream is usable, however slow the proof of its chain', async t => {
  const sandbox = await startSandboxNode(t)
  sandbox.faults.add({ kind: 'slow', ms: 200, match: 'block_by_height' })
  const port = await freePort()
  const started = varveAt(t, sandbox.url, { admin: { listen: `127.0.0.1:${port}` } })
  const admin = { adminUrl: `http://127.0.0.1:${port}` }
  await until(async () => (await readiness(admin)).status === 200, 'varve is ready')
  t.match((await readiness(admin)).body, { level: 'green', degraded: [] })
  await started
})

t.test('a tier that is down is amber, and /readyz names it', async t => {
  const { varve } = await varveAtSandbox(t, {}, { cache: { redis: { url: 'redis://127.0.0.1:1' } } })
  t.match(await readiness(varve), { status: 200, body: { level: 'amber', degraded: [/^Redis unreachable/] } })
})

t.test('upstreams all behind the served head lag, also one alone; /readyz, metric and log say so', async t => {
  for (const names of [['n1'], ['n1', 'n2']]) {
    const seconds = names.map(() => 3000)
    const varve = await varveAtTimes(t, seconds)
    await until(async () => (await readiness(varve)).body['level'] === 'green', 'the level is green')
    seconds.fill(1000)
    await until(async () => (await readiness(varve)).body['level'] === 'amber', 'the level is amber')
    const degraded = names.map(name => `${name} lags by 2000 s of ledger time`)
    await until(async () => String((await readiness(varve)).body['degraded']) === String(degraded), 'each one lags')
    t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), {
      upstreams: names.map(name => ({ name, lagSeconds: 2000, lagVersions: '2000' }))
    })
    t.equal(await varve.metric('varve_upstream_lag_seconds{upstream="n1"}'), 2000)
    if (names.length === 1) continue
    await until(() => varve.log.some(({ msg }) => msg === 'level changed'), 'the level is logged')
    t.match(varve.log.filter(({ msg }) => msg === 'level changed'), [{ level: 'amber', degraded }])
  }
})

t.test('/readyz and /status.json say when the head last moved', async t => {
  const seconds = [1000]
  const varve = await varveAtTimes(t, seconds)
  const headAgeMs = async (): Promise<number> => Number((await readiness(varve)).body['headAgeMs'])
  await until(async () => await headAgeMs() >= 200, 'the head stands although polls confirm it')
  const { position } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
    position: { ageMs: number, headAgeMs: number }
  }
  t.ok(position.headAgeMs >= 200 && position.ageMs < position.headAgeMs, JSON.stringify(position))
  seconds[0] = 1001
  await until(async () => await headAgeMs() < 200, 'the head has moved')
})

t.test('a chain reset, which pages at once, is amber', async t => {
  const { url, state } = await startChangingUpstream(t)
  const varve = await varveAt(t, url, { head: { pollMs: 50 } })
  await until(async () => (await readiness(varve)).body['level'] === 'green', 'the level is green')
  state.stamps = { ...headAt(500), 'x-aptos-ledger-timestampusec': '2000000' }
  await until(async () => await varve.metric('varve_chain_resets_total') === 1, 'the chain is reset')
  await until(
    async () => String((await readiness(varve)).body['degraded']) === 'the chain was reset in the last 15 minutes',
    'the reset is a condition'
  )
})

t.test('from 5 % on, rejected requests are amber with their usual cause', async t => {
  const front = await startEmptyUpstream(t)
  const varve = await varveAt(t, front.url, {
    limits: { client: { requestsPerSecond: 1, burst: 20, exemptHits: false } }
  })
  const statuses: number[] = []
  for (let nth = 0; nth < 30; nth++) statuses.push((await varve.get(read(500))).status)
  const limited = statuses.filter(status => status === 429).length
  t.ok(limited >= 5 && limited <= 10, `${limited} of 30 are limited`)
  const share = Math.floor(limited / 30 * 100)
  t.match(await readiness(varve), {
    status: 200,
    body: {
      level: 'amber',
      degraded: [
        `${share} % of requests are rejected with 429: usually a proxy in front is missing in trustProxy, so all ` +
        'its clients share one limit'
      ]
    }
  })
  const open = await varveAt(t, front.url)
  for (let nth = 0; nth < 19; nth++) await open.get(read(500))
  t.match(await readiness(open), { body: { level: 'green' } })
  for (let nth = 0; nth < 5; nth++) await open.get('/v1/accounts/xyz/modules')
  t.match(await readiness(open), {
    body: { level: 'amber', degraded: [/^20 % of requests are rejected with 4xx by varve: /] }
  })
})

t.test('without a usable upstream varve is red, says how many requests fail, and is ready for hits', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { prunedBlocks: 0 }, { head: { pollMs: 50 } })
  for (let round = 0; round < 2; round++) await varve.get(read(500))
  sandbox.faults.add({ kind: 'reset' })
  await until(async () => (await readiness(varve)).body['level'] === 'red', 'the level is red')
  t.match(await readiness(varve), {
    status: 200,
    body: { ready: true, degraded: ['serving cache only: no upstream is usable', /^node is down: /] }
  })
  t.equal((await varve.get(read(501))).status, 503)
  t.equal((await varve.get(read(500))).status, 200)
  t.match((await readiness(varve)).body, {
    degraded: [/^serving cache only: \d+ % of requests fail$/, /^node is down/]
  })
  t.equal(await varve.metric('varve_level'), 2)
})

t.test('errors of one in a hundred requests are red, fewer are amber, and old ones nothing', async t => {
  const recent = (failed: number, at = 119) =>
    recentFixture(121, (name, step) => name === 'hit_memory' ? 100 : name === 'unavailable' && step === at ? failed : 0)
  t.same(withTraffic([], recent(3)), [
    { level: 'amber', text: 'clients get errors from varve: < 1 % of requests fail' }
  ])
  t.same(withTraffic([], recent(30)), [{ level: 'red', text: 'clients get errors from varve: 9 % of requests fail' }])
  t.same(withTraffic([], recent(30, 100)), [])
  const amber = { level: 'amber', text: 'x' } as const
  t.equal(levelOf([]), 'green')
  t.equal(levelOf([amber]), 'amber')
  t.equal(levelOf([amber, { level: 'red', text: 'y' }]), 'red')
})

t.test('with readiness.requireUpstream, two failed polls of the last upstream make /readyz 503', async t => {
  const polls = { fail: 0, held: new Deferred<void>() }
  const { url } = await startStubUpstream(
    t,
    (_request, response) => respondOk(response, '[]'),
    (_request, response) => {
      const respond = (): void => {
        if (polls.fail > 0) response.writeHead(500).end()
        else response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{"git_hash":"aaaa"}')
      }
      if (polls.fail === 0 || polls.fail++ === 1) respond()
      else polls.held.promise.then(respond, () => {})
    }
  )
  const varve = await varveAt(t, url, {
    head: { pollMs: 50 },
    readiness: { requireUpstream: true },
    admin: { token: 'secret' }
  })
  t.match(await readiness(varve), { status: 200 })
  polls.fail = 1
  await until(async () => (await readiness(varve)).body['level'] === 'red', 'one poll has failed')
  t.match(await readiness(varve), { status: 200, body: { ready: true } }, 'the second poll is still under way')
  polls.held.resolve()
  await until(async () => (await readiness(varve)).status === 503, 'both polls have failed')
  t.match(await readiness(varve), {
    body: { ready: false, degraded: ['serving cache only: no upstream is usable', /^node is down/] }
  })
  polls.fail = 0
  await until(async () => (await readiness(varve)).status === 200, 'the upstream is back')
  const headers = { authorization: 'Bearer secret' }
  t.match(await sendRequest(varve.adminUrl, '/upstreams/node/cordon', { method: 'POST', headers }), { status: 200 })
  t.match(await readiness(varve), { status: 503 }, 'a cordoned upstream serves nothing')
})

import t, { type Test } from 'tap'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { respondOk, startCountingUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const background = { headers: { priority: 'i, u=7' } }

t.test('background reads wait while clients need the units of an upstream, and then come', async t => {
  const accounts: string[] = []
  const stub = await startStubUpstream(t, ({ url = '' }, response) => {
    accounts.push(...(/accounts\/0x0*(\d+)/.exec(url) ?? []).slice(1))
    respondOk(response, '[]')
  })
  // 300 units at once, then 3 a second; of 153 that a view costs, 3 come back in a second.
  const budget = { units: 3000, windowSeconds: 899, costs: { account_modules: 153 } }
  const varve = await varveAt(t, stub.url, { head: { pollMs: 600_000 }, upstream: { budget } })
  await varve.get(modules(400))
  t.equal((await varve.get(modules(400), background)).status, 200, 'a hit needs no unit')
  const waiting = varve.get('/v1/accounts/0x2/modules?ledger_version=400', background)
  const others = ['0x3', '0x4'].map(account => `/v1/accounts/${account}?ledger_version=400`)
  t.equal((await varve.get(String(others[0]), { headers: { priority: 'u=3' } })).status, 200)
  t.equal((await varve.get(String(others[1]))).status, 200)
  t.same(accounts, ['1', '3', '4'])
  t.equal((await waiting).status, 200)
  t.same(accounts, ['1', '3', '4', '2'])
})

/** Starts varve before an upstream whose units are used up for hours; its clock can be put forward. */
async function withoutUnits (t: Test) {
  const clock = { aheadMs: 0 }
  const now = performance.now.bind(performance)
  t.intercept(performance, 'now', { value: () => now() + clock.aheadMs })
  const pool = UpstreamPool.prototype
  const looks = t.capture(pool, 'hasRoomForBackground', pool.hasRoomForBackground)
  const upstream = await startCountingUpstream(t)
  const budget = { units: 3000, windowSeconds: 86_400, costs: { account_modules: 153 } }
  const varve = await varveAt(t, upstream.url, { head: { pollMs: 600_000 }, upstream: { budget } })
  await varve.get(modules(400))
  return {
    varve,
    upstream,
    clock,
    /** Resolves once a read has looked for room and found none. */
    looked: async () => await until(() => looks().length > 0, 'the read waits')
  }
}

t.test('a background read that found no room for 30 seconds gets a 429 with retry-after', async t => {
  const { varve, upstream, clock, looked } = await withoutUnits(t)
  const waiting = varve.get(modules(401), background)
  await looked()
  clock.aheadMs = 25_000
  // The first look may be of before.
  await looked()
  await looked()
  t.match(await varve.get(modules(400), background), { status: 200 }, 'a hit does not wait')
  const beganAtMs = Date.now()
  clock.aheadMs = 30_000
  const { status, headers, body } = await waiting
  t.match([status, headers], [429, { 'retry-after': '1', 'cache-status': 'varve; detail=limited' }])
  t.match(JSON.parse(body), { message: 'background reads (Priority: u=7) wait for those of clients' })
  t.ok(Date.now() - beganAtMs < 10_000, 'by the clock that went ahead')
  t.equal(upstream.reads(), 1)
})

t.test('nothing is asked of an upstream for a background read whose client leaves as it waits', async t => {
  const { varve, upstream, clock, looked } = await withoutUnits(t)
  const client = new AbortController()
  const left = t.rejects(fetch(`${varve.url}${modules(401)}`, { ...background, signal: client.signal }))
  await looked()
  client.abort()
  await left
  await until(
    async () => await varve.metric('varve_limited_total{by="address"}') === 1,
    'the wait has ended'
  )
  // Units come back in an hour.
  clock.aheadMs = 3_600_000
  t.match(await varve.get(modules(402), background), { status: 200 })
  t.equal(upstream.reads(), 2)
})

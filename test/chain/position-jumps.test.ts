import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Deferred } from '../../src/peers/deferred.js'
import { cacheStatusHeader } from '../support/cache-status.js'
import { startInFrontOf } from '../support/multiple-upstreams.js'
import { startSandboxNode } from '../support/replicas.js'
import { headAt, respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const yearUsec = 365 * 24 * 3600 * 1e6
const modules = (nth: number): string => `/v1/accounts/0x${nth.toString(16)}/modules?ledger_version=400`
const latest = '/v1/accounts/0x1/modules'

/** A scripted upstream whose position tests move, and which adds a lie to single responses. */
interface LyingUpstream {
  readonly url: string
  readonly requests: string[]
  version: number
  timestampUsec: number
  /** Position headers of the next read only. */
  lie: Record<string, string> | undefined
}

async function startLying (t: Test): Promise<LyingUpstream> {
  const self: LyingUpstream = { url: '', requests: [], version: 1000, timestampUsec: 1_000_000, lie: undefined }
  const truth = (): Record<string, string> =>
    stamps({
      'x-aptos-ledger-version': String(++self.version),
      'x-aptos-ledger-timestampusec': String(++self.timestampUsec)
    })
  const { url, requests } = await startStubUpstream(t, (_request, response) => {
    const { lie } = self
    self.lie = undefined
    respondOk(response, '[]', { ...truth(), ...lie })
  }, (_request, response) => {
    respondOk(response, '{"git_hash":"aaaa"}', truth())
  })
  return Object.assign(self, { url, requests })
}

/** Reads history and returns the number of hits at a position that is true. */
async function hitsAmong (varve: TestVarve, count: number): Promise<number> {
  let hits = 0
  for (let nth = 1; nth <= count; nth++) {
    const { headers } = await varve.get(modules(nth))
    const isTrue = Number(headers['x-node-ledger-version']) < 100_000
    if (isTrue && String(headers[cacheStatusHeader]).includes('hit')) hits++
  }
  return hits
}

const lies = new Map<string, Record<string, string>>([
  ['a version of 2^64 - 1', { 'x-aptos-ledger-version': '18446744073709551615' }],
  ['a time one year ahead', { 'x-aptos-ledger-timestampusec': String(1_000_000 + yearUsec) }],
  ['a version below its last one', { 'x-aptos-ledger-version': '500' }]
])

for (const [name, lie] of lies) {
  for (const target of [latest, modules(99), '/v1/nowhere']) {
    t.test(`one response with ${name} empties no cache and reaches no client: ${target}`, async t => {
      for (const count of [1, 2]) {
        const upstreams = await Promise.all(Array.from({ length: count }, async () => await startLying(t)))
        const named = upstreams.map(({ url }, at) => ({ name: `n${at + 1}`, url }))
        const varve = await varveAt(t, '', { upstreams: named as never })
        await hitsAmong(varve, 40)
        t.equal(await hitsAmong(varve, 40), 40)
        for (const upstream of upstreams) upstream.lie = lie
        const before = upstreams.reduce((sum, { requests }) => sum + requests.length, 0)
        const { status, headers } = await varve.get(target)
        t.match([status, Number(headers['x-node-ledger-version']) < 100_000], [200, true], `${count} upstreams`)
        t.ok(upstreams.reduce((sum, { requests }) => sum + requests.length, 0) - before <= 3)
        t.equal(await hitsAmong(varve, 40), 40)
        t.equal(await varve.metric('varve_chain_resets_total'), 0)
        t.equal((await varve.get(latest)).status, 200)
      }
    })
  }
}

t.test('a jump that the upstream repeats is believed at once, and no request fails', async t => {
  const upstream = await startLying(t)
  const varve = await varveAt(t, upstream.url)
  await hitsAmong(varve, 5)
  for (const [versions, usec] of [[20_000, 1000], [0, yearUsec], [5_000_000, yearUsec]] as const) {
    upstream.version += versions
    upstream.timestampUsec += usec
    const [before, read] = [upstream.requests.length, String(upstream.version + 1)]
    t.match(await varve.get(latest), { status: 200, headers: { 'x-node-ledger-version': read } })
    t.equal(upstream.requests.length - before, 1, 'one read')
    for (let nth = 1; nth <= 5; nth++) t.match((await varve.get(modules(nth))).headers[cacheStatusHeader], /hit/)
  }
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('a block proves a jump while another upstream is behind', async t => {
  const [behind, ahead] = [await startSandboxNode(t), await startSandboxNode(t)]
  const { get, statusOf } = await startInFrontOf(t, [behind, ahead], { head: { pollMs: 600_000 } })
  await get('/v1/accounts/0x1/modules')
  ahead.ledger.grow(3_000)
  behind.faults.add({ kind: 'error', code: 'internal_error', status: 503, match: 'account_modules' })
  t.match(await get('/v1/accounts/0x2/modules'), {
    status: 200,
    headers: { 'x-node-ledger-version': String(ahead.ledger.head.version) }
  })
  t.match(await statusOf('n2'), { state: 'up', version: String(ahead.ledger.head.version) })
})

t.test('a lie that one upstream repeats is not believed while another says otherwise', async t => {
  const [honest, lying] = [await startLying(t), await startLying(t)]
  const upstreams = [{ name: 'n1', url: honest.url }, { name: 'n2', url: lying.url }]
  const varve = await varveAt(t, '', { upstreams: upstreams as never, head: { pollMs: 50 } })
  await hitsAmong(varve, 40)
  lying.version += 5_000_000
  for (let nth = 0; nth < 20; nth++) {
    const { status, headers } = await varve.get(latest)
    t.match([status, Number(headers['x-node-ledger-version']) < 100_000], [200, true])
  }
  t.equal(await hitsAmong(varve, 40), 40)
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('a reset that the upstream repeats is followed by the same request', async t => {
  const upstream = await startLying(t)
  const varve = await varveAt(t, upstream.url)
  await hitsAmong(varve, 2)
  upstream.version = 500
  upstream.timestampUsec += 1000
  t.match(await varve.get(latest), { status: 200, headers: { 'x-node-ledger-version': '501' } })
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  t.match((await varve.get(modules(1))).headers[cacheStatusHeader], /stored/)
})

t.test('a late response of the chain before a reset moves no position of the new one', async t => {
  const [oldest, was, is] = ['x-node-ledger-oldest-version', '10', '20']
  let head = stamps(headAt(1000))
  const held = [new Deferred<ServerResponse>(), new Deferred<ServerResponse>()] as const
  const [late, again] = held
  const waiting = [...held]
  const { url } = await startStubUpstream(t, ({ url: target = '' }, response) => {
    if (target.includes('63/modules')) waiting.shift()?.resolve(response)
    else respondOk(response, '[]', head)
  }, (_request, response) => respondOk(response, '{"git_hash":"aaaa"}', head))
  const varve = await varveAt(t, url)
  t.match((await varve.get(modules(1))).headers, { [oldest]: was })
  const read = varve.get(modules(99))
  const response = await late.promise
  head = stamps({ ...headAt(900), 'x-aptos-ledger-timestampusec': '2000000', 'x-aptos-ledger-oldest-version': is })
  t.match((await varve.get(modules(2))).headers, { [oldest]: is })
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  await varve.get(modules(2))
  respondOk(response, '["old"]', stamps(headAt(600)))
  const repeated = await again.promise
  t.match((await varve.get(modules(2))).headers, { [oldest]: is, [cacheStatusHeader]: /hit/ })
  respondOk(repeated, '["new"]', head)
  t.match(await read, { body: '["new"]', headers: { [oldest]: is } })
})

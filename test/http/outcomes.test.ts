import t, { type Test } from 'tap'
import { type TestRequest } from '../support/client.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?limit=1&ledger_version=${version}`
const latest = '/v1/accounts/0x1/modules?limit=1'
const preflightFor = (method: string): TestRequest => ({
  method: 'OPTIONS',
  headers: { origin: 'https://a.example', 'access-control-request-method': method }
})
const statusHeader = 'cache-status'
const unpruned = { prunedBlocks: 0 }
const memoryHit = { [statusHeader]: 'varve; hit; detail=memory' }

/** Request to which varve itself responds, and its outcome. */
interface Case {
  readonly target: string
  readonly options?: TestRequest
  readonly status: number
  readonly word: string
  readonly endpoint?: string
}

function seriesOf (endpoint: string, outcome: string, status: number): string {
  return `varve_requests_total{endpoint="${endpoint}",outcome="${outcome}",status="${status}"}`
}

/** Checks that header, access log and metric have the same outcome. */
async function hasOneWord (
  t: Test,
  varve: TestVarve,
  { target, options, status, word, ...more }: Case
): Promise<void> {
  const series = seriesOf(more.endpoint ?? 'account_modules', word, status)
  const before = await varve.metric(series) ?? 0
  const cacheStatus = `varve; detail=${word}`
  t.match(await varve.get(target, options), { status, headers: { [statusHeader]: cacheStatus } }, target)
  t.match(
    varve.log.filter(({ msg }) => msg === 'request completed').at(-1),
    { outcome: word, status, cacheStatus },
    target
  )
  t.equal(await varve.metric(series), before + 1, series)
}

t.test('header, access log and metric have the same outcome for varve\'s own responses', async t => {
  const config = { log: { access: true }, passThrough: 'none', upstream: { timeoutMs: 1000 } } as const
  const { sandbox, varve } = await varveAtSandbox(t, unpruned, config)
  await varve.get(modules(5000))
  sandbox.ledger.pruneTo(600)
  await varve.get(latest)
  const cases: readonly Case[] = [
    { target: modules(2000), options: preflightFor('GET'), status: 200, word: 'preflight' },
    { target: '/v1/nothing', options: preflightFor('GET'), status: 200, word: 'preflight', endpoint: 'other' },
    { target: modules(2000), status: 410, word: 'gone' },
    { target: modules(2000), options: { method: 'HEAD' }, status: 410, word: 'gone' },
    { target: '/v1/accounts/nothing/modules', status: 400, word: 'rejected' },
    { target: '/v1/nothing', status: 404, word: 'rejected', endpoint: 'other' },
    { target: modules(5000), options: { method: 'DELETE' }, status: 405, word: 'rejected' },
    { target: modules(5000), options: { headers: { expect: 'anything' } }, status: 417, word: 'rejected' },
    { target: modules(5000), options: preflightFor('PUT'), status: 403, word: 'rejected' }
  ]
  for (const each of cases) await hasOneWord(t, varve, each)
  const neverRead = Number(sandbox.ledger.head.version) - 1
  await sandbox.close()
  await hasOneWord(t, varve, { target: modules(neverRead), status: 503, word: 'unavailable' })
  const clients = { required: true, keys: [{ name: 'shop', key: 'k-shop-51', requestsPerSecond: null }] }
  const closed = await varveAt(t, sandbox.url, { ...config, clients })
  await hasOneWord(t, closed, { target: modules(5000), status: 401, word: 'rejected' })
})

t.test('a 304 counts as a hit, and a latest read as forwarded although it is stored', async t => {
  const { varve } = await varveAtSandbox(t, unpruned, { latest: { infoMs: 60_000 } })
  const { headers: { etag = '' } } = await varve.get(modules(5000))
  const again = await varve.get(modules(5000), { headers: { 'if-none-match': etag } })
  t.match(again, { status: 304, headers: memoryHit })
  t.equal(await varve.metric(seriesOf('account_modules', 'hit_memory', 304)), 1)
  const { headers } = await varve.get(latest)
  t.equal(headers[statusHeader], 'varve; fwd=bypass')
  t.match(await varve.get(modules(Number(headers['x-node-ledger-version']))), { headers: memoryHit })
  t.equal(await varve.metric(seriesOf('account_modules', 'forwarded', 200)), 1)
  for (let round = 0; round < 2; round++) await varve.get('/v1/info')
  t.equal(await varve.metric(seriesOf('info', 'hit_memory', 200)), 1, 'micro-cached info')
})

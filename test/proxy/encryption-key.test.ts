import t from 'tap'
import { startSandboxNode } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { respondToIndex, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'

const keyHeader = 'x-aptos-txn-encryption-key'
const at = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`

/** Starts varve in front of an upstream whose later responses have other headers. */
async function start (
  t: Parameters<typeof varveAt>[0],
  headers: Record<string, string | string[]>,
  change?: ConfigChange
): Promise<{ varve: TestVarve, setHeaders: (later: Record<string, string | string[]>) => void }> {
  let current = headers
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps(), ...current }).end('[]')
  }, (request, response) => {
    respondToIndex(request, response)
  })
  const setHeaders = (later: typeof headers): void => {
    current = later
  }
  return { varve: await varveAt(t, stub.url, change), setHeaders }
}

const version = (head: number, epoch: number): Record<string, string> => ({
  ...stamps(),
  'x-aptos-ledger-version': String(head),
  'x-aptos-ledger-timestampusec': String(head * 1000),
  'x-aptos-epoch': String(epoch)
})

t.test('the encryption key of the epoch is on misses, hits, 304s and forwarded responses', async t => {
  const { varve } = await start(t, { [keyHeader]: '0xk2' })
  const { headers } = await varve.get(at(500), { headers: { origin: 'https://page.example' } })
  t.equal(headers[keyHeader], '0xk2')
  t.match(headers['access-control-expose-headers'], new RegExp(`\\b${keyHeader}\\b`), 'pages may read it')
  for (let hits = 0; hits < 3; hits++) {
    t.match(await varve.get(at(500)), { headers: { 'cache-status': 'varve; hit; detail=memory', [keyHeader]: '0xk2' } })
  }
  const { etag } = headers
  t.match(await varve.get(at(500), { headers: { 'if-none-match': String(etag) } }), {
    status: 304,
    headers: { [keyHeader]: '0xk2' }
  })
  t.equal((await varve.get('/v1/accounts/0x1')).headers[keyHeader], '0xk2')
  t.equal((await varve.get('/v1/other')).headers[keyHeader], '0xk2')
})

t.test('a position of another epoch never has the key, until a key of that epoch is seen', async t => {
  const { varve, setHeaders } = await start(t, { [keyHeader]: '0xk2' })
  const epochAndKey = async (target: string): Promise<unknown[]> => {
    const { headers } = await varve.get(target)
    return [headers['x-aptos-epoch'], headers[keyHeader]]
  }
  await varve.get(at(500))
  setHeaders(version(1001, 2))
  t.same(await epochAndKey(at(501)), ['2', '0xk2'], 'an upstream may send none')
  setHeaders(version(1002, 3))
  t.same(await epochAndKey(at(502)), ['3', undefined])
  t.same(await epochAndKey(at(500)), ['3', undefined])
  setHeaders({ ...version(1002, 3), [keyHeader]: '0xk3' })
  await varve.get(at(503))
  t.same(await epochAndKey(at(500)), ['3', '0xk3'], 'at the same position')
  setHeaders({ ...version(1001, 2), [keyHeader]: '0xk2' })
  await varve.get(at(504))
  t.same(await epochAndKey(at(500)), ['3', '0xk3'], 'an upstream that lags changes nothing')
})

t.test('a key that is ambiguous, too long or of no epoch is not sent', async t => {
  const { varve, setHeaders } = await start(t, { [keyHeader]: ['0xk2', '0xk3'] })
  t.equal((await varve.get(at(500))).headers[keyHeader], undefined)
  setHeaders({ [keyHeader]: '0'.repeat(4097) })
  t.equal((await varve.get(at(501))).headers[keyHeader], undefined)
  setHeaders({ [keyHeader]: '0xk2', 'x-aptos-epoch': '' })
  t.equal((await varve.get(at(502))).headers[keyHeader], undefined)
})

t.test('without the node\'s own names no key is sent', async t => {
  const { varve } = await start(t, { [keyHeader]: '0xk2' }, { headers: { emit: ['node'] } })
  const { headers } = await varve.get(at(500))
  t.same(Object.keys(headers).filter(name => name.endsWith('key')), [])
})

t.test('a hit at the followed head has the key of its epoch', async t => {
  const sandbox = await startSandboxNode(t)
  const varve = await varveAt(t, sandbox.url, { follow: { mode: 'on', maxAgeMs: 10_000 } })
  const target = '/v1/accounts/0x1/resource/0x1::block::BlockResource'
  const read = async (): Promise<Awaited<ReturnType<typeof varve.get>>> => await varve.get(target)
  await until(async () => (await read()).headers['cache-status'] === 'varve; hit; detail=followed', 'a followed hit')
  const direct = await fetch(`${sandbox.url}${target}`)
  t.match(direct.headers.get(keyHeader), /^0x[0-9a-f]{64}$/)
  t.equal((await read()).headers[keyHeader], direct.headers.get(keyHeader))
})

t.test('a replica whose upstream sends no key gets it with the head of another replica', async t => {
  const redis = await startRedis(t)
  const [ahead, plain] = [await startSandboxNode(t), await startSandboxNode(t)]
  plain.faults.add({ kind: 'headers', remove: [keyHeader] })
  const shared = { cache: { redis: { url: redis.url } } }
  const [sender, receiver] = [await varveAt(t, ahead.url, shared), await varveAt(t, plain.url, shared)]
  const target = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
  ahead.ledger.grow()
  const { headers } = await sender.get('/v1/accounts/0x1')
  const head = headers['x-aptos-ledger-version']
  const read = async (): Promise<typeof headers> => (await receiver.get(target)).headers
  await until(async () => (await read())['x-aptos-ledger-version'] === head, 'the head arrives')
  t.ok(headers[keyHeader])
  t.equal((await read())[keyHeader], headers[keyHeader])
})

import { type LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode } from '../support/replicas.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

/** Returns the reason why IPv6 tests cannot run here, or false. */
async function lacksIpv6 (): Promise<string | false> {
  const server = createServer()
  server.listen(0, '::1')
  const error = await Promise.race([
    once(server, 'listening').then(() => undefined),
    once(server, 'error').then(([reason]) => reason as Error)
  ])
  server.close()
  return error === undefined ? false : `this machine has no ::1: ${error.message}`
}

const skip = await lacksIpv6()

/** Makes localhost resolve to both loopback addresses, as on most machines. */
function localhostIsBoth (t: Test): void {
  const both: LookupAddress[] = [{ address: '127.0.0.1', family: 4 }, { address: '::1', family: 6 }]
  const modulesOf = createRequire(import.meta.url)
  const plain = modulesOf('node:dns') as { lookup: unknown }
  const before = plain.lookup
  plain.lookup = (hostname: string, ...rest: unknown[]) => {
    const callback = rest.at(-1) as (error: null, found: unknown, family?: number) => void
    if (hostname !== 'localhost') (before as (...all: unknown[]) => void)(hostname, ...rest)
    else if (rest.length > 1 && (rest[0] as { all?: boolean }).all === true) callback(null, both)
    else callback(null, '127.0.0.1', 4)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    plain.lookup = before
    syncBuiltinESMExports()
  })
}

t.test(
  'a listener on a host name with two addresses listens on one, so limits cover all clients',
  { skip },
  async t => {
    const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
    localhostIsBoth(t)
    const varve = await varveAt(t, upstream.url, { listen: 'localhost:0', admin: { listen: 'localhost:0' } })
    for (const [url, path] of [[varve.url, modules], [varve.adminUrl, '/healthz']] as const) {
      const { hostname, port } = new URL(url)
      t.match(await sendRequest(url, path), { status: 200 }, hostname)
      await t.rejects(sendRequest(`http://[::1]:${port}`, path), { code: 'ECONNREFUSED' })
    }
  }
)

t.test('a host name that does not resolve is an error of the listener', async t => {
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  await t.rejects(varveAt(t, upstream.url, { listen: 'nowhere.invalid:0' }), {
    message: /^cannot listen on nowhere\.invalid:0 \(listen\): .*(?:ENOTFOUND|EAI_AGAIN)/
  })
})

t.test('listeners, upstream and Redis work with IPv6 addresses', { skip }, async t => {
  const upstream = await startSandbox({ blockMs: 0, prunedBlocks: 0, host: '::1' })
  t.teardown(async () => {
    await upstream.close()
  })
  const redis = await startRedis(t, { args: ['--bind', '127.0.0.1', '::1'] })
  t.match(upstream.url, /^http:\/\/\[::1\]:\d+$/)
  const varve = await varveAt(t, upstream.url, {
    listen: '[::1]:0',
    admin: { listen: '[::1]:0' },
    cache: { redis: { url: `redis://[::1]:${redis.port}` } }
  })
  t.match([varve.url, varve.adminUrl], [/^http:\/\/\[::1\]:\d+$/, /^http:\/\/\[::1\]:\d+$/])
  t.match(varve.log.find(({ msg }) => msg === 'listening'), { url: varve.url, adminUrl: varve.adminUrl })
  t.match((await varve.get(modules)).headers, { 'cache-status': /stored/ })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 200 })
  await until(async () => await varve.metric('varve_redis_up') === 1, 'Redis is up')
})

t.test('a listener on [::] serves IPv4 too, and forwards each client\'s plain address', {
  skip
}, async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, JSON.stringify(request.headers['x-forwarded-for']))
  })
  const varve = await varveAt(t, stub.url, { listen: '[::]:0', passThrough: 'all' })
  const { port } = new URL(varve.url)
  const bodyFrom = async (host: string): Promise<string> =>
    (await sendRequest(`http://${host}:${port}`, '/v1/spec.json')).body
  t.same([await bodyFrom('127.0.0.1'), await bodyFrom('[::1]')], ['"127.0.0.1"', '"::1"'])
})

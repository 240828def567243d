import { createServer, type Server } from 'node:http'
import { type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startSandbox, type Sandbox } from '#sandbox'
import { ConfigError, startVarve, type VarveConfig } from '../../src/app/embedding.js'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
const onFreePorts = { listen: '127.0.0.1:0', admin: { listen: '127.0.0.1:0' } }

async function node (t: Test): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  return sandbox
}

t.test('startVarve serves in this process, and close frees both addresses', async t => {
  const { url: upstream } = await node(t)
  const lines: string[] = []
  const varve = await startVarve({ ...onFreePorts, upstreams: [{ url: upstream }] }, {
    onLogLine: line => lines.push(line)
  })
  t.match(await sendRequest(varve.url, modules), { status: 200, headers: { 'cache-status': /stored$/ } })
  t.match(await sendRequest(varve.url, modules), { headers: { 'cache-status': 'varve; hit; detail=memory' } })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 200 })
  t.ok(lines.some(line => (JSON.parse(line) as { msg: string }).msg === 'listening'), 'the log goes to the program')
  await Promise.all([varve.close(), varve.close()])
  for (const url of [varve.url, varve.adminUrl]) await t.rejects(sendRequest(url, '/'), { code: 'ECONNREFUSED' })
})

t.test('startVarve takes durations and sizes with a unit, and every other text as it is', async t => {
  const { url: upstream } = await node(t)
  // eslint-disable-next-line no-template-curly-in-string
  const headers = { authorization: 'Bearer $a${b}' }
  const varve = await startVarve({
    ...onFreePorts,
    upstreams: [{ url: upstream, timeoutMs: '5s', headers }],
    cache: { memory: { maxMb: '1GB' } }
  })
  t.teardown(async () => {
    await varve.close()
  })
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  t.match(body, /^varve_cache_max_bytes\{tier="memory"\} 1073741824$/m)
})

t.test('a program reads the status, purges and reloads without the admin listener', async t => {
  const { url: upstream } = await node(t)
  const config = { ...onFreePorts, upstreams: [{ url: upstream }] }
  const varve = await startVarve(config)
  t.teardown(async () => {
    await varve.close()
  })
  t.match(await varve.status(), { ready: true, level: 'green' })
  const cacheStatus = async (): Promise<unknown> => (await sendRequest(varve.url, modules)).headers['cache-status']
  t.match(await cacheStatus(), /stored$/)
  t.match(await varve.purge({ url: modules }), { everywhere: true })
  t.match(await cacheStatus(), /stored$/)
  const rejected: unknown = await varve.purge({ url: '/nowhere' }).catch((error: unknown) => error)
  t.match(rejected, { message: '`url` is not the URL of a cacheable read' })
  const mistaken: unknown = await varve.reload({ ...config, workers: 0 }).catch((error: unknown) => error)
  t.ok(mistaken instanceof ConfigError)
  t.match(await sendRequest(varve.url, '/v1/spec.json'), { status: 200 })
  t.same(await varve.reload({ ...config, passThrough: 'none', admin: { listen: '127.0.0.2:0' } }), {
    changed: ['admin.listen', 'passThrough'],
    needsRestart: ['admin.listen']
  })
  t.match(await sendRequest(varve.url, '/v1/spec.json'), { status: 404 })
})

t.test('startVarve takes keys from a file of their own when it changes', async t => {
  const { url: upstream } = await node(t)
  const keysFile = join(t.testdir({ 'keys.yaml': 'keys: [{ name: one, key: k-one }]' }), 'keys.yaml')
  const lines: string[] = []
  const varve = await startVarve({
    ...onFreePorts,
    upstreams: [{ url: upstream }],
    clients: { required: true, keysFile }
  }, { onLogLine: line => lines.push(line) })
  t.teardown(async () => {
    await varve.close()
  })
  const statusOf = async (key: string): Promise<number> =>
    (await sendRequest(varve.url, modules, { headers: { 'x-api-key': key } })).status
  t.same([await statusOf('k-one'), await statusOf('k-two')], [200, 401])
  writeFileSync(keysFile, 'keys: [{ name: two, key: k-two }]')
  await until(async () => await statusOf('k-two') === 200, 'the new key is taken', 10_000)
  t.equal(await statusOf('k-one'), 401)
  writeFileSync(keysFile, 'keys: k-three')
  await until(() => lines.some(line => /clients\.keysFile rejected/.test(line)), 'the file is rejected', 10_000)
  t.equal(await statusOf('k-two'), 200)
  t.notMatch(lines.join(''), /k-two|k-three/)
})

t.test('startVarve reports every mistake of its configuration and listens nowhere', async t => {
  const wrong = { ...onFreePorts, upstreams: [{ url: 'http://127.0.0.1:1/v1' }], wrokers: 2 }
  const mistaken = await startVarve(wrong as VarveConfig).catch((error: unknown) => error)
  t.ok(mistaken instanceof ConfigError)
  t.same((mistaken as ConfigError).mistakes.map(({ path }) => path).sort(), ['upstreams.0.url', 'wrokers'])
  await t.rejects(startVarve(onFreePorts), /^upstreams: expected the URL of a full node/)
  await t.rejects(
    startVarve({ listen: '127.0.0.1:18081', upstreams: [{ url: 'http://127.0.0.1:18081' }] }),
    /^upstreams\.0\.url: expected the address of a full node, got varve's own/
  )
})

t.test('startVarve rejects if its address is in use, and leaves nothing open', async t => {
  const other: Server = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => {
    other.close()
  })
  const { port } = other.address() as AddressInfo
  const upstreams = [{ url: 'http://127.0.0.1:9' }]
  await t.rejects(
    startVarve({ ...onFreePorts, listen: `127.0.0.1:${port}`, upstreams }),
    new RegExp(`127\\.0\\.0\\.1:${port}`)
  )
})

import { setTimeout as pause } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { accelerateClientTimeouts } from '../support/accelerated-timeouts.js'
import { type RawClient, openRaw, sendRaw, statusesIn } from '../support/raw.js'
import { adminAppWith } from '../support/status-fixtures.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

/** Starts an admin listener whose parts a test can replace. */
async function listening (
  t: Test,
  change: Parameters<typeof adminAppWith>[1] = {},
  host = '127.0.0.1'
): Promise<string> {
  return await adminAppWith(t, change).listen({ port: 0, host })
}

const wire = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`

t.test('a client that never ends its header or body receives 408 and is closed within ten seconds', async t => {
  const url = await listening(t, { purgeRoute: { token: () => 'secret', purge: async () => ({ everywhere: true }) } })
  const post = 'POST /purge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 9\r\n\r\n{'
  const began = performance.now()
  const slow = ['', 'GET /healthz HTTP/1.1\r\nHost: lo', post].map(sent => openRaw(t, url, sent))
  await Promise.all(slow.map(async ({ closed }) => await closed))
  t.ok(performance.now() - began < 10_000)
  for (const { text } of slow) {
    t.match(
      text,
      /^HTTP\/1\.1 408 .*\r\n\r\n\{"message":".+","error_code":"web_framework_error","vm_error_code":null\}$/s
    )
  }
})

t.test('bytes that are no HTTP request receive 400 in the full node\'s error format', async t => {
  const text = await sendRaw(await listening(t), 'nonsense\r\n\r\n')
  t.match(text, /^HTTP\/1\.1 400 .*"error_code":"web_framework_error"/s)
})

t.test('beyond 64 connections the longest idle one is closed, and the new one is served', async t => {
  accelerateClientTimeouts(t, 20)
  const url = await listening(t)
  const clients: RawClient[] = []
  for (let nth = 0; nth < 64; nth++) {
    const client = openRaw(t, url, wire('/healthz'))
    await until(() => client.text.endsWith('"alive"}'), 'a response comes')
    clients.push(client)
  }
  const [first, ...others] = clients
  // Makes every other connection less idle than the first.
  await pause(100)
  for (const { socket } of others) socket.write(wire('/healthz'))
  await until(() => others.every(({ text }) => statusesIn(text).length === 2), 'each connection has a second response')
  await pause(100)
  const late = openRaw(t, url, wire('/healthz'))
  await until(() => late.text.endsWith('"alive"}'), 'the new connection has its response')
  await first?.closed
  for (const { socket } of others) t.notOk(socket.destroyed)
})

t.test('on loopback a Host that is no address, not localhost and not in admin.hosts is rejected', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, {}, { admin: { token: 'secret', hosts: ['Admin.Example'] } })
  const { port } = new URL(varve.adminUrl)
  const withHost = async (host: string, target = '/status.json') =>
    await sendRequest(varve.adminUrl, target, { headers: { host } })
  for (
    const host of [
      '127.0.0.1',
      `127.0.0.1:${port}`,
      'localhost',
      `LocalHost:${port}`,
      'localhost:9',
      '[::1]',
      `[::1]:${port}`,
      '192.0.2.7:9464',
      'admin.example',
      `ADMIN.example:${port}`
    ]
  ) {
    t.equal((await withHost(host)).status, 200, host)
  }
  const strange = [
    'evil.example',
    `evil.example:${port}`,
    'localhost.evil.example',
    'evil-localhost',
    '127.0.0.1.evil.example',
    '1.2.3',
    '[evil.example]',
    '::1',
    '[::1',
    'localhost:x',
    'localhost:9:9',
    '127.0.0.1@evil.example',
    'sub.admin.example',
    ' '
  ]
  for (const host of strange) {
    for (const target of ['/status.json', '/metrics', '/healthz', '/readyz', '/status', '/nowhere']) {
      const got = await withHost(host, target)
      t.match([got.status, got.headers['content-type'], JSON.parse(got.body)], [403, /^application\/json/, {
        message: /admin\.hosts/,
        error_code: 'web_framework_error',
        vm_error_code: null
      }], `${host} ${target}`)
    }
  }
  t.match(
    await sendRaw(varve.adminUrl, 'GET /healthz HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1\.1 403 /
  )
  const purge = async (host: string) =>
    await sendRequest(varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { host, authorization: 'Bearer secret' },
      body: '{"all":true}'
    })
  t.match(await purge('evil.example'), { status: 403, body: /admin\.hosts/ })
  t.match(await purge('localhost'), { status: 200 })
  await varve.reload(
    configSchema.parse({
      upstreams: [{ name: 'node', url: sandbox.url }],
      admin: { token: 'secret', hosts: ['evil.example'] }
    })
  )
  t.equal((await withHost('evil.example')).status, 200, 'a reload changes the names')
  t.equal((await withHost('admin.example')).status, 403)
})

t.test('an HTTP/1.0 client without a Host is served, since no page makes a browser send that', async t => {
  t.match(await sendRaw(await listening(t), 'GET /healthz HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 /)
})

t.test('on an address of other networks any Host is accepted, since names point there on purpose', async t => {
  const url = (await listening(t, {}, '0.0.0.0')).replace('0.0.0.0', '127.0.0.1')
  t.equal((await sendRequest(url, '/healthz', { headers: { host: 'varve.monitoring' } })).status, 200)
})

t.test('/config shows the settings to the token, without secrets, also with workers', async t => {
  const token = 'TOKEN-S3CRET'
  for (const workers of [1, 2]) {
    const { varve } = await varveAtSandbox(t, {}, {
      workers,
      admin: { listen: '127.0.0.1:0', token, hosts: ['ops.example'] },
      upstream: { headers: { authorization: 'UP-S3CRET' }, maxConcurrent: 77 },
      clients: { required: false, keys: [{ name: 'app', key: 'KEY-S3CRET', requestsPerSecond: null }] }
    })
    const got = await sendRequest(varve.adminUrl, '/config', { headers: { authorization: `Bearer ${token}` } })
    t.match(JSON.parse(got.body), {
      workers,
      upstreams: [{ name: 'node', maxConcurrent: 77 }],
      cache: { maxEntryMb: 8 }
    })
    t.notMatch(got.body, /S3CRET/)
    t.equal((await sendRequest(varve.adminUrl, '/config')).status, 401)
    for (const [host, status] of [['evil.example', 403], ['ops.example:1', 200]] as const) {
      t.equal((await sendRequest(varve.adminUrl, '/healthz', { headers: { host } })).status, status, host)
    }
    const metrics = await sendRequest(varve.adminUrl, '/metrics', { headers: { 'accept-encoding': 'gzip' } })
    t.match(metrics.headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding' })
    t.match(gunzipSync(metrics.bytes).toString(), /^varve_cache_entries\{tier="memory"\} \d+$/m)
  }
})

t.test('admin.hosts accepts host names only: a port, a URL or a pattern is an error', async t => {
  for (const host of ['a.example:9464', 'http://a.example', '*.example', '', 'a b', 'a/b']) {
    const { error } = configSchema.safeParse({ admin: { hosts: [host] } })
    t.match(error?.issues, [{ path: ['admin', 'hosts', 0], message: /^expected a host name/ }], host)
  }
  t.same(configSchema.parse({ admin: { hosts: ['a.example', 'localhost'] } }).admin.hosts, ['a.example', 'localhost'])
})

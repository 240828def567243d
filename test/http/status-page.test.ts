import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sendRequest } from '../support/client.js'
import { serveStatus, healthyStatus } from '../support/status-fixtures.js'
import { until } from '../support/until.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode } from '../support/replicas.js'

const folder = join(import.meta.dirname, '../../src/http/page')
const policy =
  'default-src \'none\'; script-src \'self\'; style-src \'self\'; connect-src \'self\'; img-src \'self\' ' +
  'data:; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\''
const modules = '/v1/accounts/0x1/modules?limit=1'

t.test('the status page and its files have a policy that lets nothing else run, and are not stored', async t => {
  const { url } = await serveStatus(t, { status: healthyStatus() })
  const types: Record<string, string> = {
    html: 'text/html; charset=utf-8',
    css: 'text/css; charset=utf-8',
    js: 'text/javascript; charset=utf-8'
  }
  const files = readdirSync(folder)
  t.ok(files.length > 4)
  for (const file of files) {
    const target = file === 'status.html' ? '/status' : `/status/${file}`
    const headers = {
      'content-security-policy': policy,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'content-type': types[file.split('.')[1] ?? '']
    }
    const got = await sendRequest(url, target)
    t.match(got, { status: 200, headers }, target)
    t.equal(got.body, readFileSync(join(folder, file), 'utf8'), target)
    t.match(await sendRequest(url, target, { method: 'HEAD' }), {
      status: 200,
      headers: { ...headers, 'content-length': String(got.bytes.length) },
      body: ''
    }, `HEAD ${target}`)
    t.match(await sendRequest(url, target, { method: 'POST' }), { status: 403, body: /api_disabled/ }, `POST ${target}`)
  }
  for (const target of ['/status/', '/status/nothing.js', '/status/../status.html', '/status/%2e%2e/status-page.js']) {
    t.match(await sendRequest(url, target), { status: 404, body: /\/status, \/status\.json/ }, target)
  }
  t.match((await sendRequest(url, '/status.json')).headers, {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-type': /^application\/json/
  })
})

t.test('/status on the public listener is an ordinary upstream path', async t => {
  const { varve } = await varveAtSandbox(t)
  t.match(await varve.get('/status'), { status: 404, headers: { 'content-security-policy': undefined } })
})

t.test('/status.json reports recent requests, tiers and varve itself as they happened', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  for (const version of [500, 500, 500, 600]) await varve.get(`${modules}&ledger_version=${version}`)
  await varve.get(modules)
  await varve.get(`${modules}&ledger_version=x`)
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
    version: string
  }
  const statusBody = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as ReturnType<
    typeof healthyStatus
  >
  t.match(statusBody, {
    ready: true,
    varve: { version, isSandbox: false },
    upstreams: [{ name: 'node', circuit: 'closed' }],
    tiers: { memory: { entries: 3, maxBytes: 256 * 1024 * 1024 }, redis: { state: 'off' } }
  })
  t.ok((statusBody.tiers?.memory.bytes ?? 0) > 1000)
  const sums = Object.entries(statusBody.recent?.outcomes ?? {}).map((
    [name, steps]
  ): [string, number] => [name, steps.reduce((sum, step) => sum + step, 0)])
  t.same(Object.fromEntries(sums.filter(([, sum]) => sum > 0)), { hit_memory: 2, miss: 2, forwarded: 1, rejected: 1 })
  await sandbox.close()
})

t.test('/status.json reports the sandbox', async t => {
  const alone = await varveAt(t, '', { upstreams: [] as never, isSandbox: true, head: { pollMs: 1000 } })
  t.match(JSON.parse((await sendRequest(alone.adminUrl, '/status.json')).body), {
    varve: { isSandbox: true },
    upstreams: [{ name: 'sandbox' }]
  })
})

t.test('/status.json reports if Redis is up and contains no secrets of the configuration', async t => {
  const [redis, sandbox] = [await startRedis(t, { password: 's3cret-redis' }), await startSandboxNode(t)]
  const varve = await varveAt(t, '', {
    admin: { listen: '127.0.0.1:0', token: 's3cret-token' },
    upstreams: [{ url: sandbox.url, headers: { 'x-key': 's3cret-header' } }, {
      url: `${sandbox.url}/s3cret-path`
    }] as never,
    clients: { keys: [{ name: 'app', key: 's3cret-client-key-of-an-app' }] } as never,
    head: { pollMs: 100 },
    cache: { redis: { url: `redis://:s3cret-redis@127.0.0.1:${redis.port}` } }
  })
  const statusJson = async (): Promise<string> => (await sendRequest(varve.adminUrl, '/status.json')).body
  await until(async () => (await statusJson()).includes('"redis":{"state":"up"}'), 'Redis responds')
  await until(async () => (await statusJson()).includes('"state":"down","reason"'), 'one upstream is down')
  t.notMatch(await statusJson(), /s3cret/)
  await redis.kill()
  await until(
    async () => (await statusJson()).includes('"redis":{"state":"down","reason":"unreachable"}'),
    'Redis is down on the status page'
  )
  t.notMatch(await statusJson() + (await sendRequest(varve.adminUrl, '/status')).body, /s3cret/)
})

t.test('numbers, durations and foreign texts are formatted for people', async t => {
  // The page's scripts are JavaScript without types.
  const words = await import(join(folder, 'words.js')) as Record<string, (...given: unknown[]) => unknown>
  const [unknown, most, long] = ['unknown', '18446744073709551615', 'x'.repeat(5000)]
  const none = [undefined, null, NaN].map((given): [unknown, string] => [given, unknown])
  const cases: Array<[name: string, pairs: Array<[given: unknown, rendered: unknown]>]> = [
    ['grouped', [...none, [0, '0'], [1234567, '1,234,567'], [most, '18,446,744,073,709,551,615'], ['', unknown]]],
    ['grouped', [['-1', unknown], ['1e5', unknown], ['999999999999999999999', unknown], [Infinity, unknown]]],
    ['perSecond', [[0, '0'], [0.01, '< 0.1'], [0.25, '0.3'], [12.34, '12.3'], [999.6, '1,000'], [12_345, '12,345']]],
    ['duration', [...none, [-1, unknown], [0, '0 ms'], [3.4219, '3.42 ms'], [1500, '1.5 s'], [5000, '5 s']]],
    ['age', [...none, [999, 'less than a second'], [1000, '1 second'], [59_999, '59 seconds'], [60_000, '1 minute']]],
    ['age', [[7_200_000, '2 hours'], [3 * 86_400_000, '3 days']]],
    ['ago', [[0, 'just now'], [2000, '2 seconds ago']]],
    ['bytes', [[undefined, unknown], [1023, '1,023 bytes'], [1536, '1.5 KB'], [1024 ** 2, '1 MB'], [
      1.5 * 1024 ** 3,
      '1.5 GB'
    ]]],
    ['dateOf', [['1748772901223344', '2025-06-01 10:15:01 UTC'], [most, undefined], ['x', undefined]]],
    ['parseU64', [['7', 7n], [most, 18446744073709551615n], ['-7', undefined], ['', undefined], [
      undefined,
      undefined
    ]]],
    ['short', [[long, `${'x'.repeat(120)}…`], [undefined, ''], [7, '7']]]
  ]
  const plain = (text: unknown): unknown => typeof text === 'string' ? text.replaceAll('\u00a0', ' ') : text
  for (const [name, pairs] of cases) {
    for (const [given, rendered] of pairs) {
      t.equal(plain(words[name]?.(given)), rendered, `${name} ${String(given)}`)
    }
  }
  const percents = [[0, 0], [0, 5], [5, 5], [99_999, 100_000], [1, 100_000], [2, 3]]
  t.same(percents.map(of => plain(words['percent']?.(...of))), [
    undefined,
    '0 %',
    '100 %',
    '99.9 %',
    '< 0.1 %',
    '66.6 %'
  ])
  t.same([words['counted']?.(1, 'read'), words['counted']?.(2, 'thing is', 'things are')], ['1 read', '2 things are'])
  t.equal(words['short']?.('😀'.repeat(5000), 3), '😀😀😀…', 'no character is cut in two')
})

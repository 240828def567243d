import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { loadConfig } from '../src/config/load.js'
import { type Command, startCommand } from './cli/command.js'
import { type TestRequest, type TestResponse, sendRequest } from './support/client.js'
import { startCluster } from './support/redis-sets.js'
import { startRedis } from './support/redis-server.js'
import { startSandboxNode } from './support/replicas.js'
import { respondOk, startStubUpstream } from './support/stub-upstream.js'
import { until } from './support/until.js'

const folder = join(import.meta.dirname, '../config')
const old = '/v1/accounts/0x1/modules?ledger_version=500&limit=1'
const recent = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
const block = '/v1/blocks/by_version/2000'
const started = new Set<string>()

/** An example with its addresses replaced by those of the test. */
interface Example {
  readonly varve: Command
  readonly adminUrl: string
  get(target: string, options?: TestRequest): Promise<TestResponse>
  status(): Promise<{ upstreams: Array<{ name: string, state: string }> }>
}

async function run (
  t: Test,
  name: string,
  swaps: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string>> = {}
): Promise<Example> {
  started.add(name)
  let text = readFileSync(join(folder, name), 'utf8')
  for (const [theirs, ours] of Object.entries(swaps)) {
    t.ok(text.includes(theirs), `${name} has ${theirs}`)
    text = text.replaceAll(theirs, ours)
  }
  // Raises timeouts: the test, its upstreams and varve share one event loop, which many reads keep busy.
  text = text.includes('\nlimits:\n')
    ? text.replace('\nlimits:\n', '\nlimits:\n  loopLagMs: null\n')
    : `${text}limits: { loopLagMs: null }\n`
  const file = join(t.testdir({ [name]: text }), name)
  const varve = startCommand(t, ['serve', '--config', file, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], {
    environment
  })
  const [, url = '', adminUrl = ''] = await varve.waitForOutput(/"url":"(\S+?)","adminUrl":"(\S+?)","msg":"listening"/)
  await until(async () => (await sendRequest(adminUrl, '/readyz')).status === 200, `${name} is ready`)
  return {
    varve,
    adminUrl,
    get: async (target, options) => await sendRequest(url, target, options),
    status: async () => JSON.parse((await sendRequest(adminUrl, '/status.json')).body)
  }
}

const hit = { status: 200, headers: { 'cache-status': 'varve; hit; detail=memory' } }
const miss = { status: 200, headers: { 'cache-status': 'varve; fwd=uri-miss; fwd-status=200; stored' } }

t.test('example one node: a read is a hit from then on, also when the upstream is gone', async t => {
  const upstream = await startSandboxNode(t)
  const { get } = await run(t, 'one-node.yaml', { 'http://127.0.0.1:8081': upstream.url })
  t.match([await get(recent), await get(recent)], [miss, hit])
  await upstream.close()
  t.match(await get(recent), hit)
})

t.test('example hosted gateway: only its key goes upstream; history is cached despite no-store', async t => {
  const gateway = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'cache-control': 'no-store' })
  })
  const { varve, get } = await run(t, 'hosted-gateway.yaml', { 'https://gateway.example ': `${gateway.url} ` }, {
    GATEWAY_KEY: 'k-gateway-51'
  })
  const options = { headers: { authorization: 'Bearer k-mine-52', 'x-api-key': 'k-mine-53' } }
  t.match([await get(old, options), await get(old)], [miss, {
    ...hit,
    headers: { ...hit.headers, 'cache-control': 'public, max-age=86400' }
  }])
  t.match(
    await get('/v1/accounts/0x1/modules?ledger_version=5'),
    { status: 200 },
    'below the window that the gateway stamps'
  )
  t.equal(gateway.requests.length, 2)
  t.match(gateway.rawHeaders.map(lines => lines.join(' ')), [/k-gateway-51/, /k-gateway-51/])
  t.notMatch(JSON.stringify(gateway.rawHeaders), /k-mine/)
  t.notMatch(varve.out(), /k-gateway/)
})

t.test('example pruned nodes with an archive: varve reads pruned versions once from the archive', async t => {
  const pruned = [await startSandboxNode(t, { prunedBlocks: 500 }), await startSandboxNode(t, { prunedBlocks: 500 })]
  const archive = await startSandboxNode(t, { prunedBlocks: 20 })
  const swaps = {
    'http://10.0.0.1:8080': pruned[0]?.url ?? '',
    'http://10.0.0.2:8080': pruned[1]?.url ?? '',
    'https://archive.example': archive.url
  }
  const { get, status } = await run(t, 'pruned-and-archive.yaml', swaps, { ARCHIVE_KEY: 'k-archive' })
  await until(async () => (await status()).upstreams.every(({ state }) => state === 'up'), 'all upstreams are up')
  const requestCounts = (): number[] =>
    [...pruned, archive].map(upstream => upstream.requests.countFor('account_modules'))
  t.match([await get(old), await get(old)], [miss, hit])
  t.same(requestCounts(), [0, 0, 1])
  t.match(await get('/v1/accounts/0x1/modules?ledger_version=1'), { status: 410 })
})

t.test('example Redis Cluster: a read of one replica is a hit on the other, and after a restart', async t => {
  const upstream = await startSandboxNode(t)
  const cluster = await startCluster(t, { password: 'k-redis' })
  const [first = '', second = '', third = ''] = cluster.hosts
  const swaps = {
    'http://10.0.0.1:8080': upstream.url,
    '10.0.1.1:6379': first,
    '10.0.1.2:6379': second,
    '10.0.1.3:6379': third,
    'timeoutMs: 50 ': 'timeoutMs: 500 '
  }
  const environment = { REDIS_PASSWORD: 'k-redis' }
  const [one, other] = [
    await run(t, 'redis-cluster.yaml', swaps, environment),
    await run(t, 'redis-cluster.yaml', swaps, environment)
  ]
  const writes = async (): Promise<number> =>
    Number(
      /^varve_cache_writes_total\{tier="redis"\} (\d+)$/m.exec((await sendRequest(one.adminUrl, '/metrics')).body)?.[1]
    )
  // Spaces versions so far apart that no two are in one block.
  const blockOf = (nth: number): string => `/v1/blocks/by_version/${500 + 100 * nth}`
  let nth = 0
  // Waits: a replica that has just started reads nothing from Redis until it agrees with the others.
  const isShared = async (): Promise<boolean> => {
    const [target, before, requestCount] = [
      blockOf(++nth),
      await writes(),
      upstream.requests.countFor('block_by_version')
    ]
    await one.get(target)
    await until(async () => await writes() > before, 'the entry is written to Redis')
    return (await other.get(target)).headers['cache-status'] === 'varve; hit; detail=redis' &&
      upstream.requests.countFor('block_by_version') === requestCount + 1
  }
  for (let shared = 0; shared < 10; shared++) {
    await until(isShared, 'the second replica has the entry, and the upstream got one request')
  }
  one.varve.signal('SIGTERM')
  t.equal(await one.varve.code, 0)
  const again = await run(t, 'redis-cluster.yaml', swaps, environment)
  await until(
    async () => {
      await pause(50)
      return (await again.get(blockOf(nth--))).headers['cache-status'] === 'varve; hit; detail=redis'
    },
    'a restarted replica has the entry',
    5000
  )
})

t.test('example two chains side by side: they share a Redis, and responses never mix', async t => {
  const redis = await startRedis(t)
  const upstreams = [
    await startSandboxNode(t, { chainId: 1, seed: 1 }),
    await startSandboxNode(t, { chainId: 2, seed: 2 })
  ] as const
  const environment = { REDIS_URL: redis.url }
  const a = await run(t, 'two-chains-a.yaml', { 'http://10.0.0.1:8080': upstreams[0].url }, environment)
  const b = await run(t, 'two-chains-b.yaml', { 'http://10.0.0.2:8080': upstreams[1].url }, environment)
  const bodies = [(await a.get(block)).body, (await b.get(block)).body]
  t.not(bodies[0], bodies[1])
  await until(
    async () => (await redis.client.keys('chain-a:*')).length > 1 && (await redis.client.keys('chain-b:*')).length > 1,
    'both chains have entries in Redis'
  )
  t.same([(await a.get(block)).body, (await b.get(block)).body], bodies)
  t.same(upstreams.map(upstream => upstream.requests.countFor('block_by_version')), [1, 1])
  const [one, other] = ['two-chains-a.yaml', 'two-chains-b.yaml'].map(name =>
    loadConfig(environment, { config: join(folder, name) }).config
  )
  for (const key of ['listen', 'admin', 'chainId'] as const) {
    t.notSame(one?.[key], other?.[key], `both can run on one machine: ${key}`)
  }
  const wrong = startCommand(t, [
    '--config',
    join(
      t.testdir({
        'v.yaml': readFileSync(join(folder, 'two-chains-a.yaml'), 'utf8').replace(
          'http://10.0.0.1:8080',
          upstreams[1].url
        )
      }),
      'v.yaml'
    ),
    '--listen',
    '127.0.0.1:0',
    '--admin',
    '127.0.0.1:0'
  ], { environment })
  await wrong.waitForOutput(/upstream serves another chain: quarantined/)
})

t.test('example public service: anonymous clients are limited, partners are not, and hits are free', async t => {
  const [redis, a, b] = [
    await startRedis(t),
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 0 })
  ]
  const { get } = await run(t, 'public.yaml', { 'http://10.0.0.11:8080': a.url, 'http://10.0.0.12:8080': b.url }, {
    WALLET_KEY: 'k-wallet',
    EXPLORER_KEY: 'k-explorer',
    REDIS_URL: redis.url
  })
  const read = async (options: TestRequest, from: number): Promise<number[]> =>
    await Promise.all(
      Array.from({ length: 90 }, async (_, nth) =>
        (await get(`/v1/accounts/0x1/modules?ledger_version=${from + nth}&limit=1`, options)).status)
    )
  t.same(await read({ headers: { authorization: 'Bearer k-wallet' } }, 100), Array.from({ length: 90 }, () => 200))
  // Allows more on a slow machine, because the budget refills meanwhile.
  const seen: number[] = []
  for (let from = 300; from < 2000 && !seen.includes(429); from += 90) seen.push(...await read({}, from))
  t.same([...new Set(seen)].sort(), [200, 429])
  t.match(await get('/v1/accounts/0x1/modules?ledger_version=100&limit=1'), { status: 200 })
})

t.test('every example is started here, except the reference of all keys', async t => {
  t.same(
    [...started].sort(),
    readdirSync(folder).filter(name => name.endsWith('.yaml') && name !== 'varve.yaml').sort()
  )
})

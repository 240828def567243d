import t, { type Test } from 'tap'
import { type Fault, type Sandbox, type SandboxOptions } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { freePort } from '../support/free-port.js'
import {
  anySpace,
  blockTarget,
  heartbeatsIn,
  portOf,
  recordedSpaces,
  spaceOf,
  spacesKey,
  startSandboxNode,
  untilChainKnown,
  untilInRedis
} from '../support/replicas.js'
import { redisHitStatus, cacheStatusHeader } from '../support/cache-status.js'
import { startInFrontOf } from '../support/multiple-upstreams.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const known = [1000, 1500, 2000]
const disabled = { kind: 'error', code: 'api_disabled', status: 403 } as const
const noProofs: readonly Fault[] = [
  { ...disabled, match: 'block_by_height' },
  { ...disabled, match: 'transaction_by_version' }
]

async function replica (t: Test, redisUrl: string, upstreamUrl: string, change: object = {}): Promise<TestVarve> {
  return await varveAt(t, upstreamUrl, {
    cache: { redis: { url: redisUrl, timeoutMs: 2000 } },
    admin: { listen: '127.0.0.1:0', token: 'x' },
    ...change
  })
}

const upstreamsIn = async (redis: RedisProcess): Promise<string[]> => await redis.client.keys('varve:1:last space *')
/** Returns the stored record of the single upstream. */
const rememberedIn = async (redis: RedisProcess): Promise<string> =>
  await redis.client.get((await upstreamsIn(redis))[0] ?? '') ?? ''

/** Starts a replica that reads some blocks and stores them in Redis, and stops it. */
async function readBefore (
  t: Test,
  redis: RedisProcess,
  upstream: Sandbox
): Promise<{ bodies: Map<number, string>, varve: TestVarve }> {
  const varve = await replica(t, redis.url, upstream.url)
  const bodies = new Map<number, string>()
  for (const version of known) bodies.set(version, (await varve.get(blockTarget(version))).body)
  await untilInRedis(redis, `${anySpace} json blocks ???`, known.length)
  await untilChainKnown(redis)
  await until(async () => (await rememberedIn(redis)).includes(spaceOf(varve)), 'the upstream is remembered')
  await varve.stop({ drainMs: 0 })
  return { bodies, varve }
}

/** Starts a node whose port stays reserved while it is away. */
async function startRemovableUpstream (t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  return await startSandboxNode(t, { ...options, port: await freePort() })
}

/** Starts a replica without its upstream, which serves entries of another replica. */
async function startAlone (
  t: Test
): Promise<{ redis: RedisProcess, upstream: Sandbox, bodies: Map<number, string>, late: TestVarve }> {
  const redis = await startRedis(t)
  const upstream = await startRemovableUpstream(t)
  const { bodies } = await readBefore(t, redis, upstream)
  await upstream.close()
  const late = await replica(t, redis.url, upstream.url)
  t.match(await late.get(blockTarget(2000)), { body: bodies.get(2000) })
  return { redis, upstream, bodies, late }
}

t.test('without upstreams varve shows the newest position that served entries prove', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { family: 'x-movement-' })
  const before = await replica(t, redis.url, upstream.url)
  await untilChainKnown(redis)
  await untilInRedis(redis, 'varve:1:last space *')
  const first = await redis.client.get(spacesKey) ?? ''
  const heads: string[] = []
  for (const version of known) {
    await before.get(blockTarget(version))
    heads.push(String(upstream.ledger.head.version))
    upstream.ledger.grow(5)
  }
  await untilInRedis(redis, `${anySpace} json blocks ???`, known.length)
  await before.stop({ drainMs: 0 })
  await upstream.close()
  await redis.client.set(spacesKey, first)
  const late = await replica(t, redis.url, upstream.url)
  for (const [nth, expected] of [[1, 1], [0, 1], [2, 2], [1, 2]] as const) {
    const got = await late.get(blockTarget(known[nth] ?? 0))
    t.match(got, {
      status: 200,
      headers: {
        'x-node-ledger-version': heads[expected],
        'x-movement-ledger-version': heads[expected],
        'x-movement-chain-id': '4'
      }
    })
    t.notOk(got.rawNames.some(name => name.startsWith('x-aptos-')))
  }
})

t.test('the recorded position counts where it is newer than all entries', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const before = await replica(t, redis.url, upstream.url)
  await before.get(blockTarget(2000))
  upstream.ledger.grow(50)
  await before.get('/v1/accounts/0x1/modules?limit=1')
  const newest = String(upstream.ledger.head.version)
  await until(
    async () =>
      String((await recordedSpaces(redis))[0]?.head?.position.head.version) === newest &&
      (await redis.client.keys('*json blocks ???')).length === 1,
    'the block is in Redis'
  )
  await before.stop({ drainMs: 0 })
  await upstream.close()
  const late = await replica(t, redis.url, `${upstream.url}/`)
  t.match(await late.get(blockTarget(2000)), {
    status: 200,
    headers: { [cacheStatusHeader]: redisHitStatus, 'x-node-ledger-version': newest, 'x-aptos-ledger-version': newest }
  }, 'also with another form of its URL')
  t.match(await late.get('/v1/accounts/0x1/modules'), { status: 503 }, 'moving reads are not made up')
  t.match(await sendRequest(late.adminUrl, '/readyz'), { status: 200 })
})

t.test('an upstream that accepts connections and never responds delays no hit from Redis', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const { bodies } = await readBefore(t, redis, upstream)
  upstream.faults.add({ kind: 'hang' })
  const starting = replica(t, redis.url, upstream.url)
  const began = performance.now()
  const late = await starting
  t.match(await late.get(blockTarget(2000)), {
    status: 200,
    body: bodies.get(2000),
    headers: { [cacheStatusHeader]: redisHitStatus }
  })
  t.ok(performance.now() - began < 7000, `${Math.round(performance.now() - began)} ms`)
})

t.test('when the upstream returns with the same chain, even restored from a backup, hits stay hits', async t => {
  for (const blocks of [1200, 700]) {
    const { upstream, bodies, late } = await startAlone(t)
    const back = await startSandboxNode(t, { blocks, port: portOf(upstream) })
    t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
    back.requests.reset()
    for (const version of known) {
      t.match(await late.get(blockTarget(version)), {
        status: 200,
        body: bodies.get(version),
        headers: {
          [cacheStatusHeader]: /hit/,
          'x-node-ledger-version': String(blocks === 1200 ? back.ledger.head.version : upstream.ledger.head.version)
        }
      })
    }
    t.equal(back.requests.countFor('block_by_version'), 0)
    t.equal(await late.metric('varve_chain_resets_total'), 0)
  }
})

t.test('when the upstream returns with another chain, varve serves nothing of the old one', async t => {
  const others: SandboxOptions[] = [{ seed: 2, blocks: 1500 }, { seed: 2, blocks: 1500, chainId: 9 }]
  for (const options of others) {
    const { redis, upstream, late } = await startAlone(t)
    const back = await startSandboxNode(t, { ...options, port: portOf(upstream) })
    t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
    for (const version of known) {
      t.match(await late.get(blockTarget(version)), {
        status: 200,
        body: (await sendRequest(back.url, blockTarget(version))).body,
        headers: { 'x-node-chain-id': String(options.chainId ?? 4) }
      })
    }
    if (options.chainId !== undefined) {
      await until(async () => (await recordedSpaces(redis, 9)).length === 1, 'each chain id has its own record')
    }
  }
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const { bodies } = await readBefore(t, redis, upstream)
  const away = upstream.faults.add({ kind: 'reset' })
  const late = await replica(t, redis.url, upstream.url)
  t.match(await late.get(blockTarget(2000)), { body: bodies.get(2000) })
  upstream.faults.add({ kind: 'otherChain' })
  away.remove()
  t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  for (const version of known) {
    t.match(await late.get(blockTarget(version)), {
      status: 200,
      body: (await sendRequest(upstream.url, blockTarget(version))).body
    })
  }
})

for (const isUpstreamFirst of [true, false]) {
  const order = isUpstreamFirst
    ? 'a replica that starts after its upstream'
    : 'a replica that starts before its upstream'

  /** Stops the only replica and its upstream, then starts both again, the upstream perhaps on another chain. */
  const startAgain = async (
    t: Test,
    options: SandboxOptions,
    { faults = [], isLost = false }: { faults?: readonly Fault[], isLost?: boolean }
  ): Promise<{ back: Sandbox, late: TestVarve, old: TestVarve }> => {
    const redis = await startRedis(t)
    const upstream = await startRemovableUpstream(t)
    const { bodies, varve: old } = await readBefore(t, redis, upstream)
    await upstream.close()
    if (isLost) await redis.client.del(spacesKey)
    const start = async (): Promise<TestVarve> => await replica(t, redis.url, upstream.url)
    const late = isUpstreamFirst ? undefined : await start()
    if (late !== undefined) {
      t.match(await late.get(blockTarget(1500)), isLost ? { status: 503 } : { status: 200, body: bodies.get(1500) })
    }
    const back = await startSandboxNode(t, { ...options, port: portOf(upstream) })
    for (const fault of faults) back.faults.add(fault)
    const started = late ?? await start()
    t.match(await started.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
    for (const version of known) {
      t.match(await started.get(blockTarget(version)), {
        status: 200,
        body: (await sendRequest(back.url, blockTarget(version))).body
      })
    }
    return { back, late: started, old }
  }

  t.test(`${order} serves its upstream's chain alone when Redis has lost the spaces`, async t => {
    for (const options of [{ seed: 2, blocks: 1500 }, { blocks: 1200 }]) {
      const { late, old } = await startAgain(t, options, { isLost: true })
      t.not(spaceOf(late), spaceOf(old))
    }
  })

  t.test(`${order} serves nothing of another chain, whatever proves it`, async t => {
    const isLater = {
      kind: 'headers',
      set: { 'x-aptos-ledger-version': '2200', 'x-aptos-ledger-timestampusec': '1700000000000000' }
    } as const
    for (const faults of [[], noProofs, [...noProofs, isLater]]) {
      const { late, old } = await startAgain(t, { seed: 2, blocks: 1500 }, { faults })
      t.not(spaceOf(late), spaceOf(old))
    }
  })

  t.test(`${order} finds the history of its chain if the upstream proves it, else it fetches all`, async t => {
    for (const faults of [[], ...noProofs.map(fault => [fault]), noProofs]) {
      const isProven = faults.length < noProofs.length
      const { back, late, old } = await startAgain(t, { blocks: 1200 }, { faults })
      t.equal(spaceOf(late) === spaceOf(old), isProven)
      // Of the three reads the test itself sends one each.
      t.equal(back.requests.countFor('block_by_version'), isProven ? known.length : 2 * known.length)
    }
  })
}

t.test('a chain taken over from another id is identified by its own blocks alone', async t => {
  const redis = await startRedis(t)
  const [four, nine] = [
    await startRemovableUpstream(t, { blocks: 1400 }),
    await startSandboxNode(t, { chainId: 9, seed: 2 })
  ]
  await readBefore(t, redis, four)
  const other = await replica(t, redis.url, nine.url)
  const anchors = async (): Promise<unknown> => (await recordedSpaces(redis, 9))[0]?.anchors
  await until(async () => (await anchors()) !== undefined, 'the anchors of the other chain are in Redis')
  const before = await anchors()
  await four.close()
  const late = await replica(t, redis.url, four.url)
  t.match(await late.get(blockTarget(2000)), { status: 200 })
  await startSandboxNode(t, { chainId: 9, seed: 2, port: portOf(four) })
  t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  // Waits one interval: a replica that publishes an extra anchor does so after its next look.
  await until(
    async () => (await heartbeatsIn(redis, 'varve:1:peers 9')).length === 2,
    'both replicas have written heartbeats'
  )
  t.same(await anchors(), before)
  t.equal((await recordedSpaces(redis, 9)).length, 1)
  t.equal(await other.metric('varve_chain_resets_total'), 0)
})

t.test('varve serves the later space that another replica started on the same chain', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  await readBefore(t, redis, sandbox)
  const [upstream = ''] = await upstreamsIn(redis)
  const mapped = await redis.client.get(upstream) ?? ''
  const operator = await replica(t, redis.url, sandbox.url)
  await sendRequest(operator.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
    body: '{"all":true}'
  })
  await operator.get(blockTarget(1500))
  await untilInRedis(redis, `varve:1:${spaceOf(operator)} json blocks ???`)
  await operator.stop({ drainMs: 0 })
  await sandbox.close()
  await redis.client.set(upstream, mapped)
  const late = await replica(t, redis.url, sandbox.url)
  t.match((await late.get(blockTarget(1500))).headers, { [cacheStatusHeader]: redisHitStatus })
  t.match(await late.get(blockTarget(1000)), { status: 503 }, 'purged entries stay purged')
})

t.test('a purge of everything elsewhere reaches a replica that serves without its upstream', async t => {
  const { redis, upstream, bodies, late } = await startAlone(t)
  const beside = await startSandboxNode(t, { blocks: 1300 })
  const operator = await replica(t, redis.url, beside.url)
  t.match(await operator.get(blockTarget(1500)), { body: bodies.get(1500) })
  const { status } = await sendRequest(operator.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
    body: '{"all":true}'
  })
  t.ok(status === 200 || status === 202, 'a busy machine may record it late')
  await until(async () => (await late.get(blockTarget(2000))).status === 503, 'neither memory nor Redis has it')
  t.match(await late.get(blockTarget(1500)), { status: 503 })
  await operator.get(blockTarget(1500))
  await until(async () => (await late.get(blockTarget(1500))).status === 200, 'what is stored after it is served')
  await startSandboxNode(t, { port: portOf(upstream) })
  await until(async () => (await late.get(blockTarget(2000))).status === 200, 'the upstream is back')
  t.equal(spaceOf(late), spaceOf(operator))
})

t.test('varve responds 503 if its chain is unclear: unknown URL, damaged record or other chain id', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const { bodies } = await readBefore(t, redis, sandbox)
  await sandbox.close()
  const otherReplica = await replica(t, redis.url, 'http://127.0.0.1:9/other')
  t.match(await otherReplica.get(blockTarget(2000)), { status: 503, body: /"error_code":"internal_error"/ })
  t.match(await sendRequest(otherReplica.adminUrl, '/readyz'), { status: 503 })
  const configured = await replica(t, redis.url, sandbox.url, { chainId: 9 })
  t.match(await configured.get(blockTarget(2000)), { status: 503 })
  const [upstream = ''] = await upstreamsIn(redis)
  const mapped = await redis.client.get(upstream) ?? ''
  for (
    const spoil of [
      async () => await redis.client.set(upstream, mapped.replace('"chainId":4', '"chainId":5')),
      async () => await redis.client.del(upstream)
    ]
  ) {
    await spoil()
    const late = await replica(t, redis.url, sandbox.url)
    t.match(await late.get(blockTarget(2000)), { status: 503 })
    await redis.client.set(upstream, mapped)
    t.match(
      await late.get(blockTarget(2000)),
      { status: 200, body: bodies.get(2000) },
      'and reads succeed once the chain is known'
    )
  }
})

t.test('with Redis down as well varve serves nothing until Redis returns', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const upstream = await startSandboxNode(t)
  const { bodies } = await readBefore(t, redis, upstream)
  await upstream.close()
  slow.isRejecting = true
  const late = await replica(t, slow.url, upstream.url)
  t.match(await late.get(blockTarget(2000)), { status: 503 })
  slow.isRejecting = false
  await until(async () => (await late.get(blockTarget(2000))).status === 200, 'Redis is back')
  t.match(await late.get(blockTarget(1000)), {
    status: 200,
    body: bodies.get(1000),
    headers: { [cacheStatusHeader]: redisHitStatus }
  })
})

t.test('after a restart with all upstreams down, entries of the remembered chain are served', async t => {
  const redis = await startRedis(t)
  const sandboxes = [await startSandboxNode(t), await startSandboxNode(t), await startSandboxNode(t, { chainId: 9 })]
  const sharedConfig = { cache: { redis: { url: redis.url, timeoutMs: 2000 } } }
  const { varve, get, upStates } = await startInFrontOf(t, sandboxes, sharedConfig)
  await until(async () => await upStates() === '1,1,0', 'the third is quarantined')
  const { body } = await get(blockTarget(2000))
  const remembered = async (): Promise<string[]> => await redis.client.keys('varve:1:last space *')
  await until(
    async () =>
      (await remembered()).length === 2 && (await redis.client.keys(`${anySpace} json blocks ???`)).length === 1,
    'the block is in Redis',
    8000
  )
  await varve.stop({ drainMs: 0 })
  await Promise.all(sandboxes.map(async sandbox => {
    await sandbox.close()
  }))
  const late = await startInFrontOf(t, sandboxes, sharedConfig)
  t.match(await late.get(blockTarget(2000)), { status: 200, body, headers: { [cacheStatusHeader]: redisHitStatus } })
  t.match(await late.get(blockTarget(3000)), { status: 503 })
})

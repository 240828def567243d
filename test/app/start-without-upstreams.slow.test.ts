import t, { type Test } from 'tap'
import { type Fault, type Sandbox, type SandboxOptions } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { freePort } from '../support/free-port.js'
import {
  blockTarget,
  controlKey,
  portOf,
  publishedGenerations,
  sealed,
  startSandboxNode,
  untilInRedis
} from '../support/replicas.js'
import { redisHitStatus, cacheStatusHeader } from '../support/cache-status.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const known = [1000, 1500, 2000]
const noBlocksByHeight: Fault = { kind: 'error', code: 'api_disabled', status: 403, match: 'block_by_height' }

async function replica (t: Test, redisUrl: string, upstreamUrl: string, change: object = {}): Promise<TestVarve> {
  return await varveAt(t, upstreamUrl, {
    cache: { redis: { url: redisUrl, timeoutMs: 500 } },
    admin: { listen: '127.0.0.1:0', token: 'x' },
    ...change
  })
}

const upstreamsIn = async (redis: RedisProcess): Promise<string[]> => await redis.client.keys('varve:1:upstream *')
/** Returns the stored record of the single upstream. */
const rememberedIn = async (redis: RedisProcess): Promise<string> =>
  await redis.client.get((await upstreamsIn(redis))[0] ?? '') ?? ''

/** Starts a replica that reads some blocks and stores them in Redis, and stops it. */
async function readBefore (
  t: Test,
  redis: RedisProcess,
  upstream: Sandbox,
  sign = 'hash'
): Promise<Map<number, string>> {
  const varve = await replica(t, redis.url, upstream.url)
  const bodies = new Map<number, string>()
  for (const version of known) bodies.set(version, (await varve.get(blockTarget(version))).body)
  await untilInRedis(redis, 'varve:1:4.1 json blocks ???', known.length)
  await until(
    async () =>
      (await redis.client.hget(controlKey, 'g1'))?.includes(sign) === true &&
      (await rememberedIn(redis)).includes(sign),
    'the chain is known'
  )
  await varve.stop({ drainMs: 0 })
  return bodies
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
  const bodies = await readBefore(t, redis, upstream)
  await upstream.close()
  const late = await replica(t, redis.url, upstream.url)
  t.match(await late.get(blockTarget(2000)), { body: bodies.get(2000) })
  return { redis, upstream, bodies, late }
}

t.test('without upstreams varve shows the newest position that served entries prove', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { family: 'x-movement-' })
  const before = await replica(t, redis.url, upstream.url)
  await until(async () => (await rememberedIn(redis)).includes('hash'), 'the chain is known')
  const first = await rememberedIn(redis)
  const heads: string[] = []
  for (const version of known) {
    await before.get(blockTarget(version))
    heads.push(String(upstream.ledger.head.version))
    upstream.ledger.grow(5)
  }
  await untilInRedis(redis, 'varve:1:4.1 json blocks ???', known.length)
  await before.stop({ drainMs: 0 })
  await upstream.close()
  await redis.client.del(controlKey)
  await redis.client.set((await upstreamsIn(redis))[0] ?? '', first)
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

t.test('the position of the control key counts where it is newer than all entries', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const before = await replica(t, redis.url, upstream.url)
  await before.get(blockTarget(2000))
  upstream.ledger.grow(50)
  await before.get('/v1/accounts/0x1/modules?limit=1')
  const newest = String(upstream.ledger.head.version)
  await until(
    async () =>
      (await redis.client.hget(controlKey, 'g1'))?.includes(newest) === true &&
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
  const bodies = await readBefore(t, redis, upstream)
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
      t.same(await publishedGenerations(redis, 'varve:1:control 9'), ['g1'], 'each chain id counts for itself')
    }
  }
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const bodies = await readBefore(t, redis, upstream)
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
    ? 'the replica that finds the upstream up'
    : 'the replica that starts before the upstream'
  const moving = '/v1/accounts/0x1/modules?limit=1'

  /** Deletes the control key while no replica runs, then starts one and the upstream, perhaps on another chain. */
  const lose = async (
    t: Test,
    options: SandboxOptions,
    faults: readonly Fault[] = [],
    before: readonly Fault[] = []
  ): Promise<{ redis: RedisProcess, back: Sandbox, late: TestVarve }> => {
    const redis = await startRedis(t)
    const upstream = await startRemovableUpstream(t)
    for (const fault of before) upstream.faults.add(fault)
    const bodies = await readBefore(t, redis, upstream, before.length > 0 ? 'head' : 'hash')
    await upstream.close()
    await redis.client.del(controlKey)
    const start = async (): Promise<TestVarve> => await replica(t, redis.url, upstream.url)
    const late = isUpstreamFirst ? undefined : await start()
    t.match(
      await late?.get(blockTarget(1500)),
      isUpstreamFirst ? undefined : { status: 200, body: bodies.get(1500) },
      'only the old chain exists'
    )
    const back = await startSandboxNode(t, { ...options, port: portOf(upstream) })
    for (const fault of faults) back.faults.add(fault)
    const started = late ?? await start()
    t.match(await started.get(moving), { status: 200 })
    back.requests.reset()
    return { redis, back, late: started }
  }

  t.test(`${order} with another chain and a lost control key starts above its recorded generation`, async t => {
    const { redis, back, late } = await lose(t, { seed: 2, blocks: 1500 })
    for (const version of known) {
      t.match(await late.get(blockTarget(version)), {
        status: 200,
        body: (await sendRequest(back.url, blockTarget(version))).body
      })
    }
    t.same(await publishedGenerations(redis), isUpstreamFirst ? ['g2'] : ['g1', 'g2'])
    await until(
      async () => (await rememberedIn(redis)).includes('"generation":2'),
      'Redis remembers the second generation of the upstream'
    )
  })

  t.test(`${order} with the same chain and a lost control key keeps its generation: hits stay hits`, async t => {
    for (const blocks of [1200, 700]) {
      const { redis, back, late } = await lose(t, { blocks })
      for (const version of known) {
        t.match(await late.get(blockTarget(version)), { status: 200, headers: { [cacheStatusHeader]: /hit/ } })
      }
      t.equal(back.requests.countFor('block_by_version'), 0)
      t.equal(await late.metric('varve_chain_resets_total'), 0)
      await until(async () => (await publishedGenerations(redis)).length > 0, 'the control key is back')
      t.same(await publishedGenerations(redis), ['g1'])
      t.match(await redis.client.hget(controlKey, 'g1'), /hash/)
    }
  })

  t.test(`${order} without a block to compare adopts nothing that only the upstream's record names`, async t => {
    const { back, late } = await lose(t, { seed: 2, blocks: 1500 }, [noBlocksByHeight])
    for (const version of known) {
      t.match(await late.get(blockTarget(version)), {
        status: 200,
        body: (await sendRequest(back.url, blockTarget(version))).body
      })
    }
  })

  t.test(`${order}, without blocks by height, is identified by its position`, async t => {
    const same = await lose(t, { blocks: 1200 }, [noBlocksByHeight], [noBlocksByHeight])
    for (const version of known) {
      t.match(await same.late.get(blockTarget(version)), { status: 200, headers: { [cacheStatusHeader]: /hit/ } })
    }
    t.equal(same.back.requests.countFor('block_by_version'), 0)
    const later = {
      kind: 'headers',
      set: { 'x-aptos-ledger-version': '2200', 'x-aptos-ledger-timestampusec': '1700000000000000' }
    } as const
    const other = await lose(t, { seed: 2, blocks: 1500 }, [noBlocksByHeight, later], [noBlocksByHeight])
    for (const version of known) {
      t.match(await other.late.get(blockTarget(version)), {
        status: 200,
        body: (await sendRequest(other.back.url, blockTarget(version))).body
      })
    }
  })
}

t.test('without the control key a new chain gets a number above every recorded one', async t => {
  for (const isRejecting of [false, true]) {
    const redis = await startRedis(t)
    const slow = await slowRedis(t, redis)
    const upstream = await startRemovableUpstream(t)
    await readBefore(t, redis, upstream)
    await upstream.close()
    const [key = ''] = await upstreamsIn(redis)
    const record = JSON.parse((await redis.client.get(key) ?? '').replace(/^\S+ /, '')) as object
    await redis.client.set(key, sealed({ ...record, generation: 3 }))
    await redis.client.del(controlKey)
    const back = await startSandboxNode(t, { seed: 2, blocks: 1500, port: portOf(upstream) })
    slow.isRejecting = isRejecting
    const late = await replica(t, slow.url, back.url)
    t.match(await late.get(blockTarget(1500)), {
      status: 200,
      body: (await sendRequest(back.url, blockTarget(1500))).body
    })
    slow.isRejecting = false
    await until(async () => (await publishedGenerations(redis)).join() === 'g4', 'Redis lists generation 4 alone')
    t.match(await late.get(blockTarget(2000)), {
      status: 200,
      body: (await sendRequest(back.url, blockTarget(2000))).body
    })
  }
})

t.test('a record of an older release has only a number: useless without the control key', async t => {
  const redis = await startRedis(t)
  const upstream = await startRemovableUpstream(t)
  const bodies = await readBefore(t, redis, upstream)
  const [key = ''] = await upstreamsIn(redis)
  await upstream.close()
  const old = sealed({ chainId: 4, generation: 1 })
  await redis.client.set(key, old)
  const first = await replica(t, redis.url, upstream.url)
  t.match(await first.get(blockTarget(2000)), { status: 200, body: bodies.get(2000) })
  await first.stop({ drainMs: 0 })
  await redis.client.del(controlKey)
  await redis.client.set(key, old)
  const second = await replica(t, redis.url, upstream.url)
  t.match(await second.get(blockTarget(2000)), { status: 503 })
  const back = await startSandboxNode(t, { seed: 2, blocks: 1500, port: portOf(upstream) })
  t.match(await second.get(blockTarget(2000)), {
    status: 200,
    body: (await sendRequest(back.url, blockTarget(2000))).body
  })
  t.same(await publishedGenerations(redis), ['g2'])
})

t.test('a chain taken over from another id is identified by its own blocks alone', async t => {
  const redis = await startRedis(t)
  const [four, nine] = [
    await startRemovableUpstream(t, { blocks: 1400 }),
    await startSandboxNode(t, { chainId: 9, seed: 2 })
  ]
  await readBefore(t, redis, four)
  const other = await replica(t, redis.url, nine.url)
  const anchors = async (): Promise<string | null> => await redis.client.hget('varve:1:control 9', 'g1')
  await until(async () => (await anchors())?.includes('hash') === true, 'the anchors of the other chain are in Redis')
  const before = JSON.parse((await anchors() ?? '').replace(/^\S+ /, '')) as { anchors: unknown }
  await four.close()
  const late = await replica(t, redis.url, four.url)
  t.match(await late.get(blockTarget(2000)), { status: 200 })
  await startSandboxNode(t, { chainId: 9, seed: 2, port: portOf(four) })
  t.match(await late.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  // Waits one interval: a replica that publishes an extra anchor does so after its next look.
  const signs = async (): Promise<number> =>
    (await redis.client.hkeys('varve:1:control 9')).filter(field => field.startsWith('r')).length
  await until(async () => await signs() === 2, 'both replicas have written their heartbeats')
  t.same((JSON.parse((await anchors() ?? '').replace(/^\S+ /, '')) as { anchors: unknown }).anchors, before.anchors)
  t.equal(await other.metric('varve_chain_resets_total'), 0)
})

t.test('varve serves the later generation that another replica started on the same chain', async t => {
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
  await untilInRedis(redis, 'varve:1:4.2 json blocks ???')
  await operator.stop({ drainMs: 0 })
  await sandbox.close()
  await redis.client.set(upstream, mapped)
  const late = await replica(t, redis.url, sandbox.url)
  t.match((await late.get(blockTarget(1500))).headers, { [cacheStatusHeader]: redisHitStatus })
  t.match(await late.get(blockTarget(1000)), { status: 503 }, 'purged entries stay purged')
})

t.test('varve responds 503 if its chain is unclear: unknown URL, damaged record or other chain id', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const bodies = await readBefore(t, redis, sandbox)
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
      async () => await redis.client.set(upstream, mapped.replace('"generation":1', '"generation":2')),
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
  const bodies = await readBefore(t, redis, upstream)
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

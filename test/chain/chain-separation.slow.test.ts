import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import {
  anySpace,
  blockTarget,
  portOf,
  recordedSpaces,
  spaceOf,
  spacesKey,
  startSandboxNode,
  untilAgreed,
  untilAllSynced,
  untilChainKnown,
  untilInRedis,
  usedSpaces
} from '../support/replicas.js'
import { cacheStatusHeader, memoryHitStatus, redisHitStatus } from '../support/cache-status.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'
import { together } from '../support/together.js'

// Most of the time is waiting, so these tests run concurrently.
t.jobs = 3
const version = 'x-node-ledger-version'
const block = blockTarget(2000)
const timedOutProofs = 'varve_upstream_requests_total{upstream="node",endpoint="other",status="timeout"}'

async function replica (t: Test, redis: { url: string }, upstream: Sandbox, change: object = {}): Promise<TestVarve> {
  return await varveAt(t, upstream.url, {
    // The usual 50 ms would make misses of a busy machine's pauses.
    cache: { redis: { url: redis.url, timeoutMs: 1000 } },
    admin: { listen: '127.0.0.1:0', token: 'token' },
    ...change
  })
}

async function heightAt (varve: TestVarve, target = block): Promise<string> {
  return (JSON.parse((await varve.get(target)).body) as { block_height: string }).block_height
}

/** Expects each replica to serve the blocks of its own upstream. */
async function servesOwnChain (
  t: Test,
  varves: readonly TestVarve[],
  upstreams: readonly Sandbox[],
  version: number
): Promise<void> {
  t.same(
    await Promise.all(varves.map(async varve => await heightAt(varve, blockTarget(version)))),
    upstreams.map(({ ledger }) => String(ledger.blockOf(BigInt(version)).height)),
    `the block of ${version}`
  )
}

/** Returns false while /readyz says that no upstream has proven the chain of shared entries. */
async function isRedisRead ({ adminUrl }: TestVarve): Promise<boolean> {
  const { status, body } = await sendRequest(adminUrl, '/readyz')
  return status === 200 && !body.includes('Redis tier not read: no upstream has proven yet')
}

t.test('a lagging or restored upstream is no reset: hits stay hits', together(), async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const a = await replica(t, redis, sandbox, { head: { pollMs: 20 } })
  await a.get(block)
  for (const fault of [{ kind: 'lag', blocks: 200 }, { kind: 'fallBack', blocks: 300 }] as const) {
    const { remove } = sandbox.faults.add(fault)
    const polls = sandbox.requests.countFor('index')
    await until(() => sandbox.requests.countFor('index') > polls + 2, 'the upstream was polled again')
    t.match((await a.get(block)).headers, { [cacheStatusHeader]: memoryHitStatus, [version]: '20067' })
    remove()
  }
  await sandbox.close()
  const restored = await startSandboxNode(t, { blocks: 600, port: portOf(sandbox) })
  await until(() => restored.requests.countFor('index') > 2, 'the upstream was polled again')
  t.match((await a.get(block)).headers, { [cacheStatusHeader]: memoryHitStatus, [version]: '20067' })
  t.same([await a.metric('varve_chain_resets_total'), usedSpaces(a).length], [0, 1])
})

t.test('two chains of one name that share a Redis never mix, also when both start at once', together(), async t => {
  for (const atOnce of [false, true]) {
    const redis = await startRedis(t)
    const [one, other] = [await startSandboxNode(t), await startSandboxNode(t, { seed: 5, blocks: 1500 })]
    const start = [async () => await replica(t, redis, one), async () => await replica(t, redis, other)] as const
    const [a, x] = atOnce ? await Promise.all([start[0](), start[1]()]) : [await start[0](), await start[1]()]
    const truth = [one, other].map(({ ledger }) => String(ledger.blockOf(2000n).height))
    for (let round = 0; round < 8; round++) t.same(await Promise.all([heightAt(a), heightAt(x)]), truth)
    for (let times = 0; times < 2; times++) await untilAllSynced(redis)
    for (let round = 0; round < 8; round++) {
      t.same(
        await Promise.all([heightAt(a, blockTarget(3000)), heightAt(x, blockTarget(3000))]),
        [one, other].map(({ ledger }) => String(ledger.blockOf(3000n).height))
      )
    }
    t.same([usedSpaces(a).length, usedSpaces(x).length], [1, 1], 'the spaces do not alternate')
    t.same([await a.metric('varve_chain_resets_total'), await x.metric('varve_chain_resets_total')], [0, 0])
  }
})

t.test('two chains of one name never mix while upstreams take 450 ms per response', together(), async t => {
  for (const atOnce of [false, true]) {
    const redis = await startRedis(t)
    const upstreams = [await startSandboxNode(t), await startSandboxNode(t, { seed: 5, blocks: 1500 })] as const
    for (const { faults } of upstreams) faults.add({ kind: 'slow', ms: 450 })
    const first = replica(t, redis, upstreams[0])
    if (!atOnce) await first
    const varves = await Promise.all([first, replica(t, redis, upstreams[1])])
    // Reads each block twice, because the second read finds what the other replica has shared.
    for (let version = 2001; version < 2004; version++) {
      await servesOwnChain(t, varves, upstreams, version)
      await servesOwnChain(t, varves, upstreams, version)
    }
    t.same(varves.map(varve => usedSpaces(varve).length), [1, 1])
  }
})

t.test('a replica never adopts another space before its upstream has proven the chain', together(), async t => {
  const redis = await startRedis(t)
  const upstreams = [await startSandboxNode(t), await startSandboxNode(t, { seed: 5, blocks: 1500 })] as const
  const a = await replica(t, redis, upstreams[0])
  await untilChainKnown(redis)
  const hold = upstreams[0].faults.hold('transaction_by_version')
  const varves = [a, await replica(t, redis, upstreams[1])]
  await hold.arrived
  await until(
    async () => (await a.metric(timedOutProofs) ?? 0) > 0,
    'a read that proves the chain timed out'
  )
  // A comparison that waits for the upstream delays neither heartbeats nor purges.
  for (let times = 0; times < 2; times++) await untilAllSynced(redis)
  t.equal(usedSpaces(a).length, 1)
  await servesOwnChain(t, varves, upstreams, 2001)
  hold.release()
  for (let times = 0; times < 2; times++) await untilAllSynced(redis)
  await servesOwnChain(t, varves, upstreams, 2001)
  await servesOwnChain(t, varves, upstreams, 2002)
  t.equal(usedSpaces(a).length, 1)
})

t.test('a replica whose upstream fails to prove its chain uses Redis only once it is proven', together(), async t => {
  for (const isSame of [true, false]) {
    const redis = await startRedis(t)
    const upstreams = [
      await startSandboxNode(t),
      await startSandboxNode(t, isSame ? {} : { seed: 5, blocks: 1500 })
    ] as const
    const a = await replica(t, redis, upstreams[0])
    await heightAt(a)
    await untilInRedis(redis, `${anySpace} json blocks 446`)
    await untilChainKnown(redis)
    const { requests, faults } = upstreams[1]
    const failing = ['block_by_height', 'transaction_by_version'] as const
    const added = failing.map(match => faults.add({ kind: 'error', code: 'internal_error', status: 500, match }))
    const varves = [a, await replica(t, redis, upstreams[1])] as const
    const compared = requests.countFor('block_by_height')
    await until(() => requests.countFor('block_by_height') > compared + 6, 'the blocks are compared again')
    t.match((await varves[1].get(block)).headers[cacheStatusHeader], 'varve; fwd=uri-miss; fwd-status=200; stored')
    await servesOwnChain(t, varves, upstreams, 2000)
    t.notOk(await isRedisRead(varves[1]))
    for (const fault of added) fault.remove()
    await until(async () => await isRedisRead(varves[1]), 'the chain is proven')
    for (const version of [2000, 2001]) await servesOwnChain(t, varves, upstreams, version)
    t.equal(spaceOf(varves[0]) === spaceOf(varves[1]), isSame)
  }
})

t.test(
  'replicas of one chain end in agreement and share entries, however slow their upstreams are',
  together(),
  async t => {
    for (const ms of [450, 700]) {
      const redis = await startRedis(t)
      const upstream = await startSandboxNode(t)
      upstream.faults.add({ kind: 'slow', ms })
      const [a, b] = await Promise.all([replica(t, redis, upstream), replica(t, redis, upstream)])
      const share = async (space: string, version: bigint): Promise<void> => {
        for (const varve of [a, b]) await until(async () => await isRedisRead(varve), 'the replica reads from Redis')
        await a.get(blockTarget(version))
        await untilInRedis(redis, `varve:1:${space} json blocks ${upstream.ledger.blockOf(version).height}`)
        t.match((await b.get(blockTarget(version))).headers, { [cacheStatusHeader]: redisHitStatus })
      }
      const before = await untilAgreed([a, b])
      await share(before, 2000n)
      const headers = { authorization: 'Bearer token' }
      await sendRequest(a.adminUrl, '/purge', { method: 'POST', headers, body: '{"all":true}' })
      await share(await untilAgreed([a, b], before), 2000n)
    }
  }
)

t.test('two chains of one name that both start without Redis never mix once it is there', together(), async t => {
  const redis = await startRedis(t)
  const ways = [await slowRedis(t, redis), await slowRedis(t, redis)]
  for (const way of ways) way.isRejecting = true
  const upstreams = [await startSandboxNode(t), await startSandboxNode(t, { seed: 2, blocks: 1500 })]
  const varves = await Promise.all(ways.map(async (way, nth) => await replica(t, way, upstreams[nth] as Sandbox)))
  for (const version of [2000, 1800, 1600]) await servesOwnChain(t, varves, upstreams, version)
  for (const way of ways) way.isRejecting = false
  await until(async () => (await recordedSpaces(redis)).length === 2, 'Redis has the spaces of both chains')
  for (const version of [2000, 2001, 1800, 1801, 1600, 1000]) await servesOwnChain(t, varves, upstreams, version)
})

t.test('a replica whose upstream changes its chain while Redis has a third one mixes none', together(), async t => {
  const redis = await startRedis(t)
  const [one, other] = [await startSandboxNode(t), await startSandboxNode(t, { seed: 7, blocks: 1500 })]
  const a = await replica(t, redis, one, { head: { pollMs: 50 } })
  await heightAt(a)
  await untilChainKnown(redis)
  // Keeps the connection, as a load balancer does.
  one.faults.add({ kind: 'otherChain', blocks: 1400 })
  const b = await replica(t, redis, other)
  for (let round = 0; round < 3; round++) {
    for (const [varve, { url }] of [[a, one], [b, other]] as const) {
      await until(
        async () => (await varve.get(blockTarget(1500))).body === (await sendRequest(url, blockTarget(1500))).body,
        'each serves the chain of its upstream'
      )
    }
    await untilAllSynced(redis)
  }
  t.not(spaceOf(a), spaceOf(b))
})

t.test('varve responds 503 while two chains are possible and no upstream can decide', together(), async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const a = await replica(t, redis, sandbox)
  await a.get(block)
  await untilInRedis(redis, 'varve:1:last space *')
  const [key = ''] = await redis.client.keys('varve:1:last space *')
  const mapped = await redis.client.get(key)
  await untilChainKnown(redis)
  // Starts another replica on another upstream, which begins a newer space meanwhile.
  const rival = await replica(t, redis, await startSandboxNode(t, { seed: 3, blocks: 1500 }))
  await until(async () => (await recordedSpaces(redis)).length === 2, 'Redis has the spaces of both chains')
  await a.stop({ drainMs: 0 })
  await rival.stop({ drainMs: 0 })
  await sandbox.close()
  await redis.client.set(key, mapped ?? '')
  const late = await replica(t, redis, sandbox)
  t.match(await late.get(block), { status: 503, body: /"error_code":"internal_error"/ })
  t.match(await sendRequest(late.adminUrl, '/readyz'), { status: 503 })
})

t.test('varve responds 503 while every upstream is down and another chain has taken its place', together(), async t => {
  const redis = await startRedis(t)
  const [sandbox, other] = [await startSandboxNode(t), await startSandboxNode(t, { seed: 3, blocks: 1500 })]
  const a = await replica(t, redis, sandbox)
  await untilInRedis(redis, 'varve:1:last space *')
  await a.stop({ drainMs: 0 })
  await sandbox.close()
  await redis.client.del(spacesKey)
  const rival = await replica(t, redis, other)
  await heightAt(rival)
  await untilInRedis(redis, `${anySpace} json blocks ${other.ledger.blockOf(2000n).height}`)
  const late = await replica(t, redis, sandbox)
  t.match(await late.get(block), { status: 503, body: /"error_code":"internal_error"/ })
})

t.test(
  'varve forwards a latest read once if no upstream has the served head, and marks it stale',
  together(),
  async t => {
    const redis = await startRedis(t)
    const [ahead, behind] = [await startSandboxNode(t), await startSandboxNode(t, { blocks: 900 })]
    const a = await replica(t, redis, ahead)
    const b = await replica(t, redis, behind)
    await a.get(block)
    await until(
      async () => (await b.get(block)).headers[version] === '20067',
      'the other replica shows the new position'
    )
    behind.requests.reset()
    const latest = await b.get('/v1/accounts/0x1/modules?limit=1')
    t.match(latest, {
      status: 200,
      headers: { [version]: String(behind.ledger.head.version), [cacheStatusHeader]: 'varve; fwd=bypass' }
    })
    t.equal(behind.requests.countFor('account_modules'), 1)
    t.equal(await b.metric('varve_stale_latest_total'), 1)
  }
)

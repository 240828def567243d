import t, { type Test } from 'tap'
import { type Invalidation } from '../../src/cache/invalidation.js'
import { type ChainGeneration } from '../../src/chain/tracker.js'
import { ReplicaAgreement } from '../../src/cluster/replica-agreement.js'
import { PurgeLog } from '../../src/cluster/purge-log.js'
import { Purges } from '../../src/cluster/purges.js'
import { ExpiringKeys } from '../../src/cluster/expiring-keys.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { openRedisTier, storedEntryOf, type TestRedisTier } from '../support/redis-tier.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'

const logKey = 'varve:1:purges 4'

/** The purging part of one replica; the test decides when it reads the log. */
interface Replica extends Purges {
  readonly store: TestRedisTier
  readonly log: PurgeLog
  /** Invalidated keys in order; `everything` where the replica could not know which. */
  readonly invalidated: string[]
  lastIntervals(): Invalidation['intervals']
  /** Counts the notifications to other replicas. */
  readonly notified: { times: number }
  /** The agreed chain and generation. */
  readonly agreed: { chain: ChainGeneration | undefined }
  purgeKey(key: string): Promise<boolean>
  lookNow(): Promise<void>
}

async function replicaAt (t: Test, url: string): Promise<Replica> {
  const store = await openRedisTier(t, url)
  const invalidated: string[] = []
  let last: Invalidation['intervals'] = []
  const notified = { times: 0 }
  const agreed: Replica['agreed'] = { chain: { id: 4, generation: 1 } }
  const log = new PurgeLog(new ExpiringKeys(store.link, 'varve:1:', 1000))
  const purges = new Purges({
    store,
    log,
    local: {
      invalidate: async ({ keys, intervals }) => {
        invalidated.push(...keys)
        last = intervals
        return true
      },
      invalidateAll: async () => {
        invalidated.push('everything')
      }
    },
    agreement: new ReplicaAgreement({ isAgreed: true }, agreed),
    notifyReplicas: async () => {
      notified.times++
    }
  })
  return Object.assign(purges, {
    store,
    log,
    invalidated,
    lastIntervals: () => last,
    notified,
    agreed,
    purgeKey: async (key: string) =>
      await purges.purge({ id: 4, generation: 1 }, () => ({ keys: [key], intervals: [] })),
    lookNow: async () => {
      await purges.sync(4)
    }
  })
}

/** Starts two replicas that have read the log, so that later purges are new to them. */
async function two (t: Test): Promise<{ redis: RedisProcess, a: Replica, b: Replica }> {
  const redis = await startRedis(t)
  const [a, b] = [await replicaAt(t, redis.url), await replicaAt(t, redis.url)]
  await a.lookNow()
  await b.lookNow()
  return { redis, a, b }
}

t.test('a purge applies here and in Redis at once, and once on another replica that reads the log', async t => {
  const { redis, a, b } = await two(t)
  a.store.put({ stored: storedEntryOf('k', 'old'), ttlMs: undefined })
  await a.store.waitUntilIdle()
  t.ok(await redis.client.exists('varve:1:k'))
  const purged = a.purgeKey('k')
  t.same(a.invalidated, ['k'], 'before any command to Redis')
  t.equal(await purged, true)
  t.notOk(await redis.client.exists('varve:1:k'))
  t.equal(a.notified.times, 1)
  t.same(b.invalidated, [])
  for (let times = 0; times < 3; times++) {
    await b.lookNow()
    await a.lookNow()
  }
  t.same([a.invalidated, b.invalidated], [['k'], ['k']])
})

t.test('a replica that reads its own purge before its delivery ends does not apply it again', async t => {
  const { a, b } = await two(t)
  const add = a.log.add.bind(a.log)
  a.log.add = async (chainId, purge) => {
    await add(chainId, purge)
    await a.lookNow()
  }
  await a.purgeKey('k')
  await b.lookNow()
  t.same([a.invalidated, b.invalidated], [['k'], ['k']])
})

t.test('purges apply in their order, and versions above 2^53 stay exact', async t => {
  const { a, b } = await two(t)
  for (const key of ['1', '2', '3']) await a.purgeKey(key)
  const high = 2n ** 64n - 1n
  const intervals: Invalidation['intervals'] = [
    { family: '4.1 json blocks', first: high, last: high },
    { family: '4.1 bcs blocks', first: high - 9n, last: high - 9n }
  ]
  await a.purge({ id: 4, generation: 1 }, () => ({ keys: ['4'], intervals }))
  await b.lookNow()
  t.same(b.invalidated, ['1', '2', '3', '4'])
  t.same(b.lastIntervals(), intervals)
})

t.test('a new replica applies earlier purges, since it may have read stale data before', async t => {
  const { redis, a } = await two(t)
  await a.purgeKey('k')
  const late = await replicaAt(t, redis.url)
  await late.lookNow()
  t.same(late.invalidated, ['k'])
})

t.test('a replica that knows no record of a full log purges everything, and the log stays bounded', async t => {
  const { redis, a, b } = await two(t)
  for (let nth = 1; nth <= 255; nth++) await a.purgeKey(`k${nth}`)
  await b.lookNow()
  t.same(
    b.invalidated,
    Array.from({ length: 255 }, (_, at) => `k${at + 1}`),
    'a log\'s length of purges is known one by one'
  )
  for (let nth = 1; nth <= 300; nth++) await a.purgeKey(`m${nth}`)
  t.equal(await redis.client.llen(logKey), 256)
  t.ok(await redis.client.ttl(logKey) > 0)
  b.store.put({ stored: storedEntryOf('waits', 'old'), ttlMs: undefined })
  await b.lookNow()
  t.ok(b.invalidated.slice(255).includes('everything'))
  const before = b.invalidated.length
  await b.lookNow()
  await a.purgeKey('last')
  await b.lookNow()
  t.same(b.invalidated.slice(before), ['last'], 'and later purges again')
  t.notOk(a.invalidated.includes('everything'), 'the purging replica knows them all')
})

t.test('a replica that missed more purges than the log holds drops its queued writes', async t => {
  const redis = await startRedis(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await replicaAt(t, redis.url), await replicaAt(t, network.url)]
  await b.lookNow()
  network.isRejecting = true
  network.dropConnections()
  await until(() => !b.store.link.isUp, 'the link is down')
  b.store.put({ stored: storedEntryOf('k0', 'old'), ttlMs: undefined })
  for (let nth = 0; nth < 300; nth++) await a.purgeKey(`k${nth}`)
  network.isRejecting = false
  // Skips the write that follows a reconnect, since the agreement reads the log before anything is written.
  b.store.resumeWrites = () => {}
  await until(() => b.store.link.isUp, 'the link is up')
  t.equal(b.store.queued, 1)
  await b.lookNow()
  t.equal(b.store.queued, 0)
})

t.test('a lost log is written again by replicas that know it, and others learn all of it', async t => {
  const { redis, a, b } = await two(t)
  await a.purgeKey('known to both')
  await b.lookNow()
  for (const key of ['one', 'two', 'three']) await a.purgeKey(key)
  for (
    const damage of [
      async () => await redis.client.del(logKey),
      async () => await redis.client.set(logKey, 'another kind')
    ]
  ) {
    await damage()
    // The replica that knows least reads first, so that it starts the log.
    await b.lookNow()
    await b.lookNow()
    await a.lookNow()
    await b.lookNow()
    t.same(b.invalidated, ['known to both', 'one', 'two', 'three'])
    t.equal(await redis.client.llen(logKey), 4)
    t.ok(await redis.client.ttl(logKey) > 0)
  }
  t.same(a.invalidated, ['known to both', 'one', 'two', 'three'], 'no replica purges again what it knew')
  const late = await replicaAt(t, redis.url)
  await late.lookNow()
  t.same([...late.invalidated].sort(), [...b.invalidated].sort())
})

t.test('a log that Redis does not let a replica read is not treated as lost', async t => {
  const { redis, a } = await two(t)
  await a.purgeKey('one')
  await redis.client.call('ACL', 'SETUSER', 'blind', 'on', '>pw', '~*', '&*', '+@all', '-lrange')
  const blind = await replicaAt(t, `redis://blind:pw@${redis.host}`)
  await t.rejects(blind.lookNow(), /NOPERM/)
  t.same(blind.invalidated, [])
  t.equal(await redis.client.llen(logKey), 1)
})

t.test('a damaged record hides no other, and replicas that know it write it again', async t => {
  const { redis, a, b } = await two(t)
  for (const key of ['one', 'two', 'three']) await a.purgeKey(key)
  const text = await redis.client.lindex(logKey, 1) ?? ''
  const damages = ['', 'nonsense', text.slice(0, -1), text.replace('two', 'tow'), '0 {}']
  for (const [at, damaged] of damages.entries()) {
    await redis.client.lset(logKey, 1, damaged)
    const reader = at === 0 ? b : await replicaAt(t, redis.url)
    await reader.lookNow()
    t.same(reader.invalidated, ['one', 'three'], JSON.stringify(damaged))
    await a.lookNow()
    await reader.lookNow()
    t.same([...reader.invalidated].sort(), ['one', 'three', 'two'])
    await redis.client.lset(logKey, 1, text)
    await redis.client.ltrim(logKey, 0, 2)
  }
})

t.test('many concurrent purges are logged and notified once each', async t => {
  const { redis, a, b } = await two(t)
  const keys = Array.from({ length: 50 }, (_, at) => `k${at}`)
  t.ok((await Promise.all(keys.map(async key => await a.purgeKey(key)))).every(Boolean))
  t.equal(a.notified.times, 50)
  t.equal(await redis.client.llen(logKey), 50)
  await b.lookNow()
  t.same(b.invalidated, keys)
})

t.test('purges that Redis missed stay pending, bounded, block Redis reads and are delivered later', async t => {
  const redis = await startRedis(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await replicaAt(t, network.url), await replicaAt(t, redis.url)]
  b.store.put({ stored: storedEntryOf('k0', 'old'), ttlMs: undefined })
  await b.store.waitUntilIdle()
  network.isRejecting = true
  network.dropConnections()
  await until(() => !a.store.link.isUp, 'the link is down')
  for (let nth = 0; nth < 256; nth++) t.equal(await a.purgeKey(`k${nth}`), false)
  t.equal(a.hasPending, true)
  t.equal(a.invalidated.length, 256)
  await t.rejects(a.purgeKey('one too many'), { status: 503, code: 'internal_error' })
  t.notOk(a.invalidated.includes('one too many'), 'a rejected purge changes nothing')
  await t.rejects(a.deliver())
  network.isRejecting = false
  await until(() => a.store.link.isUp, 'the link is up')
  await a.deliver()
  t.equal(a.hasPending, false)
  t.notOk(await redis.client.exists('varve:1:k0'))
  await b.lookNow()
  t.ok(b.invalidated.includes('everything') || b.invalidated.length === 256)
  t.equal(await a.purgeKey('one more'), true)
})

t.test('a purge before agreement is delivered after it, with keys of the agreed generation', async t => {
  const { redis, a, b } = await two(t)
  a.agreed.chain = undefined
  const whatIn = ({ generation }: ChainGeneration): Invalidation => ({ keys: [`4.${generation} k`], intervals: [] })
  for (const generation of [1, 3]) {
    b.store.put({ stored: storedEntryOf(`4.${generation} k`, 'old'), ttlMs: undefined })
  }
  await b.store.waitUntilIdle()
  t.equal(await a.purge({ id: 4, generation: 1 }, whatIn), false)
  t.same(a.invalidated, ['4.1 k'])
  t.ok(a.hasPending)
  await a.deliver()
  t.ok(a.hasPending)
  a.agreed.chain = { id: 4, generation: 3 }
  await a.deliver()
  t.notOk(a.hasPending)
  t.notOk(await redis.client.exists('varve:1:4.3 k'))
  await b.lookNow()
  t.same(b.invalidated, ['4.3 k'])
})

t.test('an entry that a replica writes during its purge does not stay in Redis', async t => {
  const { redis, a, b } = await two(t)
  // Redis runs the commands of a connection in order, so later ones wait for the gate.
  const gate = b.store.link.run('probe', async client => await client.blpop('gate', 0), 10_000)
  b.store.put({ stored: storedEntryOf('k', 'old'), ttlMs: undefined })
  await until(
    async () => /cmd=blpop/.test(String(await redis.client.call('CLIENT', 'LIST'))),
    'the command waits at Redis'
  )
  t.equal(await a.purgeKey('k'), true)
  await redis.client.lpush('gate', '')
  await gate
  await b.store.waitUntilIdle()
  t.ok(await redis.client.exists('varve:1:k'), 'the write came after the purge')
  await b.lookNow()
  t.notOk(await redis.client.exists('varve:1:k'))
})

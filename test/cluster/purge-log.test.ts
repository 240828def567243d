import t, { type Test } from 'tap'
import { type Invalidation } from '../../src/cache/redis-tier.js'
import { type Chain } from '../../src/chain/tracker.js'
import { PurgeLog } from '../../src/cluster/purge-log.js'
import { Purges } from '../../src/cluster/purges.js'
import { ExpiringKeys } from '../../src/cluster/expiring-keys.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { openRedisTier, storedEntryOf, type TestRedisTier } from '../support/redis-tier.js'
import { slowRedis } from '../support/slow-redis.js'
import { until } from '../support/until.js'

const log = 'varve:1:purges 4'

/** The purging side of one replica, with its looks in the test's hand. */
interface Replica extends Purges {
  readonly store: TestRedisTier
  /** What it had to forget, in order; `everything` where it could not know what. */
  readonly forgot: string[]
  lastBlocks(): Invalidation['blocks']
  /** How many times it told the others to look. */
  readonly told: { times: number }
  /** The chain that it has agreed on with the others. */
  readonly agreed: { chain: Chain | undefined }
  purgeKey(key: string): Promise<boolean>
  lookNow(): Promise<void>
}

async function replicaAt (t: Test, url: string): Promise<Replica> {
  const store = await openRedisTier(t, url)
  const forgot: string[] = []
  let last: Invalidation['blocks'] = []
  const told = { times: 0 }
  const agreed: Replica['agreed'] = { chain: { id: 4, generation: 1 } }
  const purges = new Purges({
    store,
    log: new PurgeLog(new ExpiringKeys(store.link, 'varve:1:', 1000)),
    local: {
      invalidate: ({ keys, blocks }) => {
        forgot.push(...keys)
        last = blocks
      },
      invalidateAll: () => {
        forgot.push('everything')
      }
    },
    chain: () => agreed.chain,
    notifyReplicas: async () => {
      told.times++
    }
  })
  return Object.assign(purges, {
    store,
    forgot,
    lastBlocks: () => last,
    told,
    agreed,
    purgeKey: async (key: string) => await purges.purge({ id: 4, generation: 1 }, () => ({ keys: [key], blocks: [] })),
    lookNow: async () => {
      await purges.sync(4)
    }
  })
}

/** Two that have looked, so that what comes now is new to them. */
async function two (t: Test): Promise<{ redis: RedisProcess, a: Replica, b: Replica }> {
  const redis = await startRedis(t)
  const [a, b] = [await replicaAt(t, redis.url), await replicaAt(t, redis.url)]
  await a.lookNow()
  await b.lookNow()
  return { redis, a, b }
}

t.test('a purge is forgotten here at once, in Redis, and by another when it looks, once', async t => {
  const { redis, a, b } = await two(t)
  a.store.put({ stored: storedEntryOf('k', 'old'), blockIndexKey: undefined, ttlMs: undefined })
  await a.store.waitUntilIdle()
  t.ok(await redis.client.exists('varve:1:k'))
  const purged = a.purgeKey('k')
  t.same(a.forgot, ['k'], 'before anything was asked of Redis')
  t.equal(await purged, true)
  t.notOk(await redis.client.exists('varve:1:k'))
  t.equal(a.told.times, 1)
  t.same(b.forgot, [])
  for (let times = 0; times < 3; times++) {
    await b.lookNow()
    await a.lookNow()
  }
  t.same([a.forgot, b.forgot], [['k'], ['k']])
})

t.test('purges are forgotten in the order in which they came, and versions above 2^53 arrive as they are', async t => {
  const { a, b } = await two(t)
  for (const key of ['1', '2', '3']) await a.purgeKey(key)
  const blocks = [{ blocks: '4.1 json blocks', version: 2n ** 64n - 1n }]
  await a.purge({ id: 4, generation: 1 }, () => ({ keys: ['4'], blocks }))
  await b.lookNow()
  t.same(b.forgot, ['1', '2', '3', '4'])
  t.same(b.lastBlocks(), blocks)
})

t.test('whoever has just begun forgets what was purged before: it may have read it while it could not ask', async t => {
  const { redis, a } = await two(t)
  await a.purgeKey('k')
  const late = await replicaAt(t, redis.url)
  await late.lookNow()
  t.same(late.forgot, ['k'])
})

t.test('more purges than the log holds: whoever knows none of a full one forgets everything, and the log stays bounded', async t => {
  const { redis, a, b } = await two(t)
  for (let nth = 1; nth <= 255; nth++) await a.purgeKey(`k${nth}`)
  await b.lookNow()
  t.same(b.forgot, Array.from({ length: 255 }, (_, at) => `k${at + 1}`), 'as many as it holds are known each')
  for (let nth = 1; nth <= 300; nth++) await a.purgeKey(`m${nth}`)
  t.equal(await redis.client.llen(log), 256)
  t.ok(await redis.client.ttl(log) > 0)
  b.store.put({ stored: storedEntryOf('waits', 'old'), blockIndexKey: undefined, ttlMs: undefined })
  await b.lookNow()
  t.ok(b.forgot.slice(255).includes('everything'))
  const before = b.forgot.length
  await b.lookNow()
  await a.purgeKey('last')
  await b.lookNow()
  t.same(b.forgot.slice(before), ['last'], 'and from then on each is known again')
  t.notOk(a.forgot.includes('everything'), 'whoever purged knows them all')
})

t.test('with more purges than the log holds, what waits to be written is let go of too', async t => {
  const redis = await startRedis(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await replicaAt(t, redis.url), await replicaAt(t, network.url)]
  await b.lookNow()
  network.isRefusing = true
  network.dropConnections()
  await until(() => !b.store.link.isUp, 'the link is down')
  b.store.put({ stored: storedEntryOf('k0', 'old'), blockIndexKey: undefined, ttlMs: undefined })
  for (let nth = 0; nth < 300; nth++) await a.purgeKey(`k${nth}`)
  network.isRefusing = false
  // As the agreement does: it looks before anything is written.
  b.store.resumeWrites = () => {}
  await until(() => b.store.link.isUp, 'the link is up')
  t.equal(b.store.queued, 1)
  await b.lookNow()
  t.equal(b.store.queued, 0)
})

t.test('a log that is lost is written again by whoever knows it, and whoever did not know it learns all of it', async t => {
  const { redis, a, b } = await two(t)
  await a.purgeKey('known to both')
  await b.lookNow()
  for (const key of ['one', 'two', 'three']) await a.purgeKey(key)
  for (
    const damage of [async () => await redis.client.del(log), async () => await redis.client.set(log, 'another kind')]
  ) {
    await damage()
    // The one that knows least looks first, and has the log in its own words.
    await b.lookNow()
    await b.lookNow()
    await a.lookNow()
    await b.lookNow()
    t.same(b.forgot, ['known to both', 'one', 'two', 'three'])
    t.equal(await redis.client.llen(log), 4)
    t.ok(await redis.client.ttl(log) > 0)
  }
  t.same(a.forgot, ['known to both', 'one', 'two', 'three'], 'and nobody forgets for that what it knew')
  const late = await replicaAt(t, redis.url)
  await late.lookNow()
  t.same([...late.forgot].sort(), [...b.forgot].sort())
})

t.test('a log that may not be read is not taken for a lost one', async t => {
  const { redis, a } = await two(t)
  await a.purgeKey('one')
  await redis.client.call('ACL', 'SETUSER', 'blind', 'on', '>pw', '~*', '&*', '+@all', '-lrange')
  const blind = await replicaAt(t, `redis://blind:pw@${redis.host}`)
  await t.rejects(blind.lookNow(), /NOPERM/)
  t.same(blind.forgot, [])
  t.equal(await redis.client.llen(log), 1)
})

t.test('a damaged record hides no other, and is told again by whoever knows it', async t => {
  const { redis, a, b } = await two(t)
  for (const key of ['one', 'two', 'three']) await a.purgeKey(key)
  const text = await redis.client.lindex(log, 1) ?? ''
  const damages = ['', 'nonsense', text.slice(0, -1), text.replace('two', 'tow'), '0 {}']
  for (const [at, damaged] of damages.entries()) {
    await redis.client.lset(log, 1, damaged)
    const reader = at === 0 ? b : await replicaAt(t, redis.url)
    await reader.lookNow()
    t.same(reader.forgot, ['one', 'three'], JSON.stringify(damaged))
    await a.lookNow()
    await reader.lookNow()
    t.same([...reader.forgot].sort(), ['one', 'three', 'two'])
    await redis.client.lset(log, 1, text)
    await redis.client.ltrim(log, 0, 2)
  }
})

t.test('many purges at once are told once each', async t => {
  const { redis, a, b } = await two(t)
  const keys = Array.from({ length: 50 }, (_, at) => `k${at}`)
  t.ok((await Promise.all(keys.map(async key => await a.purgeKey(key)))).every(Boolean))
  t.equal(a.told.times, 50)
  t.equal(await redis.client.llen(log), 50)
  await b.lookNow()
  t.same(b.forgot, keys)
})

t.test('what Redis was not told of holds here, is bounded, keeps Redis from being read, and is told when it answers', async t => {
  const redis = await startRedis(t)
  const network = await slowRedis(t, redis)
  const [a, b] = [await replicaAt(t, network.url), await replicaAt(t, redis.url)]
  b.store.put({ stored: storedEntryOf('k0', 'old'), blockIndexKey: undefined, ttlMs: undefined })
  await b.store.waitUntilIdle()
  network.isRefusing = true
  network.dropConnections()
  await until(() => !a.store.link.isUp, 'the link is down')
  for (let nth = 0; nth < 256; nth++) t.equal(await a.purgeKey(`k${nth}`), false)
  t.equal(a.hasPending, true)
  t.equal(a.forgot.length, 256)
  await t.rejects(a.purgeKey('one too many'), { status: 503, code: 'internal_error' })
  t.notOk(a.forgot.includes('one too many'), 'what is refused is not done by half')
  await t.rejects(a.deliver())
  network.isRefusing = false
  await until(() => a.store.link.isUp, 'the link is up')
  await a.deliver()
  t.equal(a.hasPending, false)
  t.notOk(await redis.client.exists('varve:1:k0'))
  await b.lookNow()
  t.ok(b.forgot.includes('everything') || b.forgot.length === 256)
  t.equal(await a.purgeKey('one more'), true)
})

t.test('a purge of who has not agreed with the others yet is told when it has, under the keys that are agreed on', async t => {
  const { redis, a, b } = await two(t)
  a.agreed.chain = undefined
  const whatIn = ({ generation }: Chain): Invalidation => ({ keys: [`4.${generation} k`], blocks: [] })
  for (const generation of [1, 3]) {
    b.store.put({ stored: storedEntryOf(`4.${generation} k`, 'old'), blockIndexKey: undefined, ttlMs: undefined })
  }
  await b.store.waitUntilIdle()
  t.equal(await a.purge({ id: 4, generation: 1 }, whatIn), false)
  t.same(a.forgot, ['4.1 k'])
  t.ok(a.hasPending)
  await a.deliver()
  t.ok(a.hasPending)
  a.agreed.chain = { id: 4, generation: 3 }
  await a.deliver()
  t.notOk(a.hasPending)
  t.notOk(await redis.client.exists('varve:1:4.3 k'))
  await b.lookNow()
  t.same(b.forgot, ['4.3 k'])
})

t.test('what another replica is writing while it is purged does not stay in Redis', async t => {
  const { redis, a, b } = await two(t)
  // The server takes one connection's commands one after another, so what comes behind this one waits for the gate.
  const gate = b.store.link.run('probe', async client => await client.blpop('gate', 0), 10_000)
  b.store.put({ stored: storedEntryOf('k', 'old'), blockIndexKey: undefined, ttlMs: undefined })
  await until(async () => /cmd=blpop/.test(String(await redis.client.call('CLIENT', 'LIST'))), 'it waits')
  t.equal(await a.purgeKey('k'), true)
  await redis.client.lpush('gate', '')
  await gate
  await b.store.waitUntilIdle()
  t.ok(await redis.client.exists('varve:1:k'), 'the write came after the purge')
  await b.lookNow()
  t.notOk(await redis.client.exists('varve:1:k'))
})

import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type TokenBuckets, LocalBuckets } from '../../src/clients/token-buckets.js'
import { RedisBuckets } from '../../src/clients/redis-buckets.js'
import { type RedisLink } from '../../src/redis/link.js'
import { IpcBuckets } from '../../src/peers/ipc-carrier.js'
import { IpcCalls } from '../../src/peers/ipc-calls.js'
import { type PrimaryMethods } from '../../src/peers/messages.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { redisLinkTo } from '../support/redis-tier.js'
import { until } from '../support/until.js'

const few = { perSecond: 10, burst: 3 }

/** Creates buckets that count in Redis, by the clock of Redis. */
async function sharedAt (
  t: Test,
  redis: RedisProcess,
  alone: TokenBuckets
): Promise<{ buckets: RedisBuckets, link: RedisLink, failed: string[] }> {
  const failed: string[] = []
  const nothing = (): void => {}
  const link = redisLinkTo(t, redis.url, operation => failed.push(operation))
  await link.start({ onUp: nothing, onDown: nothing })
  await until(() => link.isUp, 'Redis responds')
  return { buckets: new RedisBuckets(link, 'varve:1:', alone, () => performance.now()), link, failed }
}

/** Waits until the clock has advanced, since a timer may fire a millisecond early. */
async function passes (ms: number): Promise<void> {
  const until = performance.now() + ms
  while (performance.now() < until) await pause(Math.max(1, until - performance.now()))
}

const refuse = (): never => {
  throw new Error('no request may be counted locally')
}
const refusing: TokenBuckets = { take: refuse, level: refuse, refund: refuse }

/** Creates the buckets of a worker, which count in a primary process. */
function workerOf (primary: Pick<LocalBuckets, 'take' | 'level' | 'refund'>, alone = refusing): IpcBuckets {
  const ofWorker: IpcCalls<PrimaryMethods> = new IpcCalls(message => setImmediate(() => ofPrimary.receive(message)), {})
  const ofPrimary = new IpcCalls(message => setImmediate(() => ofWorker.receive(message)), {
    take: primary.take.bind(primary),
    level: primary.level.bind(primary),
    refund: primary.refund.bind(primary)
  })
  return new IpcBuckets(ofWorker, alone)
}

/** Checks the contract of every kind of buckets, on a clock that the test advances. */
async function promises (
  t: Test,
  buckets: Pick<TokenBuckets, 'take'>,
  pass: (ms: number) => Promise<void>
): Promise<void> {
  const take = async (subject = 'a'): Promise<number> => await buckets.take(subject, few)
  t.same([await take(), await take(), await take()], [0, 0, 0], 'a burst')
  const waitMs = await take()
  t.ok(waitMs > 0 && waitMs <= 101, `then none for a tenth of a second: ${waitMs} ms`)
  t.equal(await take('b'), 0, 'another client is not limited')
  await pass(waitMs)
  t.equal(await take(), 0, 'one after the stated wait')
  t.ok(await take() > 0, 'and no more')
  await pass(1000)
  t.same([await take(), await take(), await take()], [0, 0, 0], 'after a pause a burst, and no more')
  t.ok(await take() > 0)
}

/** A rate so low that no token returns during the test. */
const rare = { perSecond: 0.001, burst: 2 }

async function givesBack (t: Test, buckets: Pick<TokenBuckets, 'take' | 'refund'>, subject = 'c'): Promise<void> {
  t.same([await buckets.take(subject, rare), await buckets.take(subject, rare)], [0, 0])
  buckets.refund(subject, rare)
  t.equal(await buckets.take(subject, rare), 0, 'a refunded token')
  t.ok(await buckets.take(subject, rare) > 0, 'and no more')
  buckets.refund(subject, rare)
  t.equal(await buckets.take(subject, rare), 0, 'also after a rejection')
  for (let nth = 0; nth < 5; nth++) buckets.refund(subject, rare)
  t.same([await buckets.take(subject, rare), await buckets.take(subject, rare)], [0, 0])
  t.ok(await buckets.take(subject, rare) > 0, 'never more than a burst')
  buckets.refund('unseen', rare)
}

t.test('a refunded token is available again in local, worker and Redis buckets', async t => {
  await givesBack(t, new LocalBuckets(() => 5))
  await givesBack(t, workerOf(new LocalBuckets(() => 5)))
  const redis = await startRedis(t)
  const alone = new LocalBuckets(() => 5)
  const { buckets } = await sharedAt(t, redis, alone)
  await givesBack(t, buckets)
  await redis.kill()
  await givesBack(t, {
    take: (...taken) => buckets.take(...taken),
    refund: (...given) => alone.refund(...given)
  }, 'e')
  alone.take('d', rare)
  alone.take('d', rare)
  buckets.refund('d', rare)
  await until(() => alone.take('d', rare) === 0, 'the token is returned to its bucket')
})

/** Checks that the tokens of a bucket are known, and can be lowered, but never raised. */
async function knowsItsLevel (t: Test, buckets: TokenBuckets): Promise<void> {
  const rare = { perSecond: 0.001, burst: 10 }
  t.equal(await buckets.level('f', rare), 10)
  t.equal(await buckets.take('f', rare, 3), 0)
  t.equal(await buckets.level('f', rare), 7)
  t.equal(await buckets.level('f', rare, 20), 7, 'never raised')
  t.equal(await buckets.level('f', rare, 2), 2)
  t.equal(await buckets.take('f', rare, 2), 0)
  t.equal(await buckets.level('f', rare), 0)
  t.ok(await buckets.take('f', rare) > 0)
}

t.test('the tokens left are known and can be lowered, in local, worker and Redis buckets', async t => {
  await knowsItsLevel(t, new LocalBuckets(() => 5))
  await knowsItsLevel(t, workerOf(new LocalBuckets(() => 5)))
  const redis = await startRedis(t)
  const { buckets } = await sharedAt(t, redis, new LocalBuckets(() => 5))
  await knowsItsLevel(t, buckets)
  await redis.kill()
  t.equal(await buckets.level('f', { perSecond: 0.001, burst: 10 }), 10, 'counted alone')
})

t.test('local buckets allow a burst, then the rate, per client', async t => {
  let nowMs = 5
  await promises(t, new LocalBuckets(() => nowMs), async ms => {
    nowMs += ms
  })
})

t.test('the rate holds in the long run, with any number of rejected attempts', async t => {
  let nowMs = 0
  const buckets = new LocalBuckets(() => nowMs)
  let taken = 0
  for (; nowMs < 60_000; nowMs += 7) if (buckets.take('a', few) === 0) taken++
  t.equal(taken, 3 + 60 * 10 - 1)
})

t.test('tokens of one allowance do not count against another', async t => {
  const buckets = new LocalBuckets(() => 0)
  for (let nth = 0; nth < 500; nth++) buckets.take('a', { perSecond: 1, burst: 500 })
  t.ok(buckets.take('a', { perSecond: 1, burst: 500 }) > 0)
  t.equal(buckets.take('a', { perSecond: 100, burst: 100 }), 0)
})

t.test('rejected requests of a client do not reach Redis until its wait is over', async t => {
  const redis = await startRedis(t)
  const { buckets } = await sharedAt(t, redis, refusing)
  const commandCount = async (): Promise<number> =>
    Number(/cmdstat_eval:calls=(\d+)/.exec(await redis.client.info('commandstats'))?.[1])
  const slow = { perSecond: 2, burst: 1 }
  t.equal(await buckets.take('a', slow), 0)
  const waitMs = await buckets.take('a', slow)
  const before = await commandCount()
  for (let nth = 0; nth < 100; nth++) t.ok(await buckets.take('a', slow) <= waitMs)
  t.equal(await commandCount(), before)
  t.equal(await buckets.take('b', slow), 0)
  await passes(waitMs)
  t.equal(await buckets.take('a', slow), 0)
})

t.test('beyond 50,000 clients the least recently seen one is evicted', async t => {
  const buckets = new LocalBuckets(() => 0)
  const one = { perSecond: 1, burst: 1 }
  for (let nth = 0; nth < 50_000; nth++) buckets.take(String(nth), one)
  t.ok(buckets.take('0', one) > 0, 'remembered, and seen again')
  t.equal(buckets.take('another', one), 0)
  t.ok(buckets.take('0', one) > 0)
  t.ok(buckets.take('2', one) > 0)
  t.equal(buckets.take('1', one), 0, 'evicted')
})

t.test('Redis buckets are shared by all replicas and use the clock of Redis', async t => {
  const redis = await startRedis(t)
  const [{ buckets: one }, { buckets: other, failed }] = [
    await sharedAt(t, redis, refusing),
    await sharedAt(t, redis, refusing)
  ]
  let nth = 0
  await promises(t, {
    take: async (subject, allowance) => await (nth++ % 2 === 0 ? one : other).take(subject, allowance)
  }, passes)
  t.same(failed, [])
  for (const key of await redis.client.keys('*')) t.ok(await redis.client.pttl(key) <= 300, `${key} expires`)
})

t.test('an impossible or malformed value in Redis counts as none', async t => {
  const redis = await startRedis(t)
  const { buckets } = await sharedAt(t, redis, refusing)
  for (const nonsense of ['99999999999999', '-1', 'nan', 'x', '']) {
    await redis.client.set('varve:1:taken:a', nonsense)
    t.equal(await buckets.take('a', few), 0, nonsense)
  }
})

t.test('without Redis, or after its error, a process counts locally and reports the failure', async t => {
  const redis = await startRedis(t)
  const alone = new LocalBuckets(() => 0)
  const { buckets, link, failed } = await sharedAt(t, redis, alone)
  await redis.client.lpush('varve:1:taken:a', 'of another type')
  t.same([await buckets.take('a', few), await buckets.take('a', few), await buckets.take('a', few)], [0, 0, 0])
  t.ok(await buckets.take('a', few) > 0)
  t.same(failed, ['limit', 'limit', 'limit', 'limit'])
  t.match(link.scriptErrorOf('limit'), /WRONGTYPE/)
  t.equal(await buckets.take('c', few), 0)
  t.equal(link.scriptErrorOf('limit'), undefined, 'the error is over')
  await redis.kill()
  t.ok(await buckets.take('a', few) > 0)
  t.equal(await buckets.take('b', few), 0)
})

t.test('an impossible result from Redis is ignored, so it neither opens nor closes the limit', async t => {
  for (const lie of ['0', '-1', null, NaN, -1, 1e12, Infinity, [0]]) {
    const link = { runScript: async () => lie } as unknown as RedisLink
    const buckets = new RedisBuckets(link, '', new LocalBuckets(() => 0), () => 0)
    t.same(
      [await buckets.take('a', few), await buckets.take('a', few), await buckets.take('a', few)],
      [0, 0, 0],
      String(lie)
    )
    t.ok(await buckets.take('a', few) > 0, String(lie))
  }
})

t.test('workers count in the primary process, and locally while it does not respond', async t => {
  let nowMs = 0
  const first = new LocalBuckets(() => nowMs)
  const workers = [workerOf(first), workerOf(first)]
  let nth = 0
  await promises(t, {
    take: async (subject, allowance) => await (workers[nth++ % 2] as IpcBuckets).take(subject, allowance)
  }, async ms => {
    nowMs += ms
  })
  const hang = (): never => new Promise<number>(() => {}) as never
  const never = { take: hang, level: hang, refund: () => {} }
  const deserted = workerOf(never, new LocalBuckets(() => 0))
  t.same(await Promise.all([1, 2, 3].map(async () => await deserted.take('a', few))), [0, 0, 0])
  t.ok(await deserted.take('a', few) > 0)
})

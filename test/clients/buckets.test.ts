import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Buckets, LocalBuckets } from '../../src/clients/buckets.js'
import { RedisBuckets } from '../../src/clients/redis-buckets.js'
import { RedisLink } from '../../src/redis/link.js'
import { clientFor } from '../../src/redis/connection-options.js'
import { RemoteBuckets } from '../../src/workers/remote-buckets.js'
import { startRedis } from '../support/redis-server.js'
import { type RedisProcess } from '../support/redis-process.js'
import { until } from '../support/until.js'

const few = { perSecond: 10, burst: 3 }

/** Counts in a Redis, by the clock of its own. */
async function sharedAt (
  t: Test,
  redis: RedisProcess,
  alone: Buckets
): Promise<{ buckets: RedisBuckets, failed: string[] }> {
  const failed: string[] = []
  const place = {
    url: redis.url,
    cluster: [],
    sentinel: { name: null, hosts: [], password: null },
    username: null,
    password: null,
    tls: false,
    ca: undefined,
    timeoutMs: 500
  }
  const nothing = (): void => {}
  const link = new RedisLink(clientFor(place as never), {
    timeoutMs: 500,
    probeKey: 'probe',
    now: () => performance.now(),
    tally: {
      redisCalled: nothing,
      redisFailed: operation => {
        failed.push(operation)
      }
    },
    onUp: nothing,
    onDown: nothing
  })
  t.teardown(() => {
    link.stop()
  })
  await link.start()
  await until(() => link.isUp, 'Redis answers')
  return { buckets: new RedisBuckets(link, 'varve:1:', alone, () => performance.now()), failed }
}

/** Waits until so much has passed by the clock that is counted on, which a timer may be a moment ahead of. */
async function passes (ms: number): Promise<void> {
  const until = performance.now() + ms
  while (performance.now() < until) await pause(Math.max(1, until - performance.now()))
}

const refusing: Buckets = {
  take: () => {
    throw new Error('nobody should count alone')
  },
  refund: () => {
    throw new Error('nobody should count alone')
  }
}

/** What every way of counting promises, on a clock that the test moves on. */
async function promises (t: Test, buckets: Buckets, pass: (ms: number) => Promise<void>): Promise<void> {
  const take = async (subject = 'a'): Promise<number> => await buckets.take(subject, few)
  t.same([await take(), await take(), await take()], [0, 0, 0], 'a burst')
  const waitMs = await take()
  t.ok(waitMs > 0 && waitMs <= 101, `and then no more for a tenth of a second: ${waitMs} ms`)
  t.equal(await take('b'), 0, 'which is nothing to another client')
  await pass(waitMs)
  t.equal(await take(), 0, 'one after that time, which was the truth')
  t.ok(await take() > 0, 'and no more')
  await pass(1000)
  t.same([await take(), await take(), await take()], [0, 0, 0], 'after a rest a burst again, and not more than that')
  t.ok(await take() > 0)
}

/** So few a second that none is there again before the test ends. */
const rare = { perSecond: 0.001, burst: 2 }

async function givesBack (t: Test, buckets: Buckets, subject = 'c'): Promise<void> {
  t.same([await buckets.take(subject, rare), await buckets.take(subject, rare)], [0, 0])
  buckets.refund(subject, rare)
  t.equal(await buckets.take(subject, rare), 0, 'one that was given back')
  t.ok(await buckets.take(subject, rare) > 0, 'and no more')
  buckets.refund(subject, rare)
  t.equal(await buckets.take(subject, rare), 0, 'also after a refusal')
  for (let nth = 0; nth < 5; nth++) buckets.refund(subject, rare)
  t.same([await buckets.take(subject, rare), await buckets.take(subject, rare)], [0, 0])
  t.ok(await buckets.take(subject, rare) > 0, 'never more than a burst')
  buckets.refund('stranger', rare)
}

t.test('what was taken for nothing is given back, wherever it is counted', async t => {
  await givesBack(t, new LocalBuckets(() => 5))
  const primary = new LocalBuckets(() => 5)
  const worker: RemoteBuckets = new RemoteBuckets({
    take: (id, subject, allowance) => {
      setImmediate(() => {
        worker.onTakeResult(id, primary.take(subject, allowance))
      })
    },
    refund: (subject, allowance) => {
      setImmediate(() => {
        primary.refund(subject, allowance)
      })
    }
  }, refusing)
  await givesBack(t, worker)
  const redis = await startRedis(t)
  const alone = new LocalBuckets(() => 5)
  const { buckets } = await sharedAt(t, redis, alone)
  await givesBack(t, buckets)
  await redis.kill()
  await givesBack(t, {
    take: (...taken) => buckets.take(...taken),
    refund: (...given) => {
      alone.refund(...given)
    }
  }, 'e')
  alone.take('d', rare)
  alone.take('d', rare)
  buckets.refund('d', rare)
  await until(() => alone.take('d', rare) === 0, 'it is given back where it was counted')
})

t.test('counting in this process: a burst, then one at a time, each client by itself', async t => {
  let nowMs = 5
  await promises(t, new LocalBuckets(() => nowMs), async ms => {
    nowMs += ms
  })
})

t.test('as many as are allowed get through in the long run, whatever is tried beside', async t => {
  let nowMs = 0
  const buckets = new LocalBuckets(() => nowMs)
  let taken = 0
  for (; nowMs < 60_000; nowMs += 7) if (buckets.take('a', few) === 0) taken++
  t.equal(taken, 3 + 60 * 10 - 1)
})

t.test('what was taken of one allowance says nothing of another', async t => {
  const buckets = new LocalBuckets(() => 0)
  for (let nth = 0; nth < 500; nth++) buckets.take('a', { perSecond: 1, burst: 500 })
  t.ok(buckets.take('a', { perSecond: 1, burst: 500 }) > 0)
  t.equal(buckets.take('a', { perSecond: 100, burst: 100 }), 0)
})

t.test('Redis does not hear of each request of a client that it has refused, and is asked again when that is over', async t => {
  const redis = await startRedis(t)
  const { buckets } = await sharedAt(t, redis, refusing)
  const asked = async (): Promise<number> =>
    Number(/cmdstat_eval:calls=(\d+)/.exec(await redis.client.info('commandstats'))?.[1])
  const slow = { perSecond: 2, burst: 1 }
  t.equal(await buckets.take('a', slow), 0)
  const waitMs = await buckets.take('a', slow)
  const before = await asked()
  for (let nth = 0; nth < 100; nth++) t.ok(await buckets.take('a', slow) <= waitMs)
  t.equal(await asked(), before)
  t.equal(await buckets.take('b', slow), 0)
  await passes(waitMs)
  t.equal(await buckets.take('a', slow), 0)
})

t.test('of fifty thousand clients the one that was seen longest ago is forgotten', async t => {
  const buckets = new LocalBuckets(() => 0)
  const one = { perSecond: 1, burst: 1 }
  for (let nth = 0; nth < 50_000; nth++) buckets.take(String(nth), one)
  t.ok(buckets.take('0', one) > 0, 'remembered, and seen again')
  t.equal(buckets.take('another', one), 0)
  t.ok(buckets.take('0', one) > 0)
  t.ok(buckets.take('2', one) > 0)
  t.equal(buckets.take('1', one), 0, 'forgotten')
})

t.test('counting in Redis: the same for all replicas together, on no clock but its own', async t => {
  const redis = await startRedis(t)
  const [{ buckets: one }, { buckets: other, failed }] = [
    await sharedAt(t, redis, refusing),
    await sharedAt(t, redis, refusing)
  ]
  let nth = 0
  await promises(t, {
    take: async (subject, allowance) => await (nth++ % 2 === 0 ? one : other).take(subject, allowance),
    refund: () => {}
  }, passes)
  t.same(failed, [])
  for (const key of await redis.client.keys('*')) t.ok(await redis.client.pttl(key) <= 300, `${key} goes by itself`)
})

t.test('what cannot be of this clock, or no number, in Redis is as good as nothing there', async t => {
  const redis = await startRedis(t)
  const { buckets } = await sharedAt(t, redis, refusing)
  for (const nonsense of ['99999999999999', '-1', 'nan', 'x', '']) {
    await redis.client.set('varve:1:taken:a', nonsense)
    t.equal(await buckets.take('a', few), 0, nonsense)
  }
})

t.test('where Redis refuses, or is gone, a process counts by itself, and the failure is counted', async t => {
  const redis = await startRedis(t)
  const alone = new LocalBuckets(() => 0)
  const { buckets, failed } = await sharedAt(t, redis, alone)
  await redis.client.lpush('varve:1:taken:a', 'of another type')
  t.same([await buckets.take('a', few), await buckets.take('a', few), await buckets.take('a', few)], [0, 0, 0])
  t.ok(await buckets.take('a', few) > 0)
  t.same(failed, ['limit', 'limit', 'limit', 'limit'])
  t.match(buckets.scriptError, /WRONGTYPE/)
  t.equal(await buckets.take('c', few), 0)
  t.equal(buckets.scriptError, undefined, 'it is not refused for good')
  await redis.kill()
  t.ok(await buckets.take('a', few) > 0)
  t.equal(await buckets.take('b', few), 0)
})

t.test('a Redis that says what cannot be is not believed, be it to let everything through or nothing', async t => {
  for (const lie of ['0', '-1', null, NaN, -1, 1e12, Infinity, [0]]) {
    const link = { run: async () => lie } as unknown as RedisLink
    const buckets = new RedisBuckets(link, '', new LocalBuckets(() => 0), () => 0)
    t.same(
      [await buckets.take('a', few), await buckets.take('a', few), await buckets.take('a', few)],
      [0, 0, 0],
      String(lie)
    )
    t.ok(await buckets.take('a', few) > 0, String(lie))
  }
})

t.test('a worker has the first process count for all, and counts by itself while that one says nothing', async t => {
  let nowMs = 0
  const first = new LocalBuckets(() => nowMs)
  const workers = [0, 1].map(() => {
    const worker: RemoteBuckets = new RemoteBuckets({
      take: (id, subject, allowance) => {
        setImmediate(() => {
          worker.onTakeResult(id, first.take(subject, allowance))
        })
      },
      refund: () => {}
    }, refusing)
    return worker
  })
  let nth = 0
  await promises(t, {
    take: async (subject, allowance) => await (workers[nth++ % 2] as RemoteBuckets).take(subject, allowance),
    refund: () => {}
  }, async ms => {
    nowMs += ms
  })
  const deserted: RemoteBuckets = new RemoteBuckets({ take: () => {}, refund: () => {} }, new LocalBuckets(() => 0))
  t.same(await Promise.all([1, 2, 3].map(async () => await deserted.take('a', few))), [0, 0, 0])
  t.ok(await deserted.take('a', few) > 0)
  deserted.onTakeResult(1, 5)
})

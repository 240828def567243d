import t from 'tap'
import { Deception, faultsIn, index } from '../support/hostile/deception.js'
import { answerTo, lieOf, readKinds } from '../support/hostile/lies.js'
import { openWire, type WireClient } from '../support/hostile/wire-client.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const lies = [
  'a length beyond the body, and the end',
  'the transfer coding "gzip, chunked"',
  'no position at all',
  'two media types',
  '302',
  'two cursors'
].map(lieOf)
const stored = readKinds.filter(({ stored }) => stored)

t.test('a false response never reaches the Redis tier, and another replica serves the true one', async t => {
  const redis = await startRedis(t)
  const deception = await Deception.start(t)
  const clientOfReplica = async (): Promise<WireClient> => {
    const varve = await varveAt(t, deception.upstream.url, {
      cache: { redis: { url: redis.url } },
      upstream: { timeoutMs: 1000 }
    })
    await until(async () => (await varve.metric('varve_redis_up')) === 1, 'Redis is up')
    return openWire(t, varve.url)
  }
  const [first, second] = [await clientOfReplica(), await clientOfReplica()]
  for (const lie of lies) {
    for (const kind of stored) {
      const read = deception.read(kind)
      deception.upstream.scripts.set(read.target, answerTo(read, lie))
      t.same(faultsIn('rejected', read, await first.send(read.request)), [], `${lie.name}: ${kind.name}`)
      deception.upstream.scripts.delete(read.target)
      t.same(faultsIn('truth', read, await second.send(read.request)), [], `${lie.name}: ${kind.name}, at another`)
    }
  }
})

t.test('an impossible release is ignored, and responses fetched meanwhile are stored in Redis', async t => {
  const redis = await startRedis(t)
  const deception = await Deception.start(t)
  deception.upstream.scripts.set('/v1', answerTo(index, lieOf('a release of 100 KB')))
  const varve = await varveAt(t, deception.upstream.url, { cache: { redis: { url: redis.url } } })
  const client = openWire(t, varve.url)
  await until(async () => (await varve.metric('varve_redis_up')) === 1, 'Redis is up')
  for (const kind of stored) {
    const read = deception.read(kind)
    t.same(faultsIn('truth', read, await client.send(read.request)), [], kind.name)
  }
  await until(
    async () => (await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0) >= stored.length,
    'all entries are written to Redis'
  )
})

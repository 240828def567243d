import t, { type Test } from 'tap'
import { tagOf } from '../../src/cache/entry.js'
import { decodeStored, encodeStored } from '../../src/cache/stored.js'
import { ask, type Got } from '../support/client.js'
import { eventNode, handle, stream } from '../support/event-node.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { written } from '../support/replicas.js'
import { fromMemory, fromRedis, status, stored } from '../support/said.js'
import { storedOf } from '../support/shared-store.js'
import { slowRedis } from '../support/slow-redis.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const token = 't0ken'
const long = `/v1/accounts/0x${'1'.padStart(64, '0')}/events`
const name = `varve:1:4.1 json ${long}/0x1%3A%3Aa%3A%3AHolder/events`
const pageKey = (creation: number, start: number, limit: number): string =>
  `varve:1:4.1 json ${long}/${creation}?start=${start}&limit=${limit}`
const pageAt = (path: string, start: number, limit: number): string => `${path}?start=${start}&limit=${limit}`

async function replica (
  t: Test,
  url: string,
  redis: RedisProcess,
  settings: Parameters<typeof varveAt>[2] = {}
): Promise<TestVarve> {
  return await varveAt(t, url, {
    cache: { redis: { url: redis.url, timeoutMs: 2000 } },
    admin: { listen: '127.0.0.1:0', token },
    ...settings
  })
}

async function purge (varve: TestVarve, url: string): Promise<Got> {
  return await ask(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ url })
  })
}

const isAway = async (redis: RedisProcess, key: string): Promise<boolean> => await redis.client.exists(key) === 0
/** What a replica says to a page, which must be the node's. */
const saidOf = async (varve: TestVarve, target: string, body: string): Promise<string> => {
  const got = await varve.get(target)
  t.equal(got.body, body, target)
  return String(got.headers[status])
}

t.test('what one replica read by either path is every replica\'s by both, and so is what can be put together of it, with no node asked', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const a = await replica(t, node.url, redis)
  for (const start of [0, 50, 100]) t.equal(await saidOf(a, pageAt(handle, start, 50), node.page(start, 50)), stored)
  await written(a, 3)
  const asked = node.asked.length
  for (const paths of [[handle, stream(7)], [stream(7), handle]]) {
    const b = await replica(t, node.url, redis)
    for (const path of paths) {
      const first = path === paths[0]
      t.equal(
        await saidOf(b, pageAt(path, 50, 50), node.page(50, 50)),
        first ? fromRedis : path === handle ? fromRedis : fromMemory
      )
      t.equal(
        await saidOf(b, pageAt(path, 20, 50), node.page(20, 50)),
        first ? fromRedis : path === handle ? fromMemory : fromMemory
      )
      t.equal(await saidOf(b, pageAt(path, 20, 50), node.page(20, 50)), fromMemory)
    }
    t.equal(await saidOf(b, pageAt(handle, 110, 30), node.page(110, 30)), fromRedis, 'a part of one')
    t.equal(await saidOf(b, pageAt(handle, 110, 41), node.page(110, 41)), stored, 'an event that nobody has')
    await written(b, 1)
    // Its record stays, and leads nowhere.
    await redis.client.del(pageKey(7, 110, 41))
  }
  t.equal(node.asked.length, asked + 2)
})

t.test('pages at both ends of the numbers, and over the seams of the index, are found', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t, { count: 5000, max: 2000 })]
  const a = await replica(t, node.url, redis)
  for (const [start, limit] of [[0, 1], [1000, 30], [1020, 30], [1040, 1500]] as const) {
    t.equal(await saidOf(a, pageAt(handle, start, limit), node.page(start, limit)), stored)
  }
  await written(a, 4)
  const b = await replica(t, node.url, redis)
  for (const [start, limit] of [[0, 1], [1023, 2], [1000, 1500], [1039, 2], [2048, 1], [2539, 1]] as const) {
    t.match(await saidOf(b, pageAt(handle, start, limit), node.page(start, limit)), /^varve; hit/, `${start} ${limit}`)
  }
  t.equal(await saidOf(b, pageAt(handle, 2540, 1), node.page(2540, 1)), stored)
  t.equal((await b.get(`${handle}?start=18446744073709551615&limit=5`)).body, '[]')
  t.equal((await b.get(`${handle}?start=5&limit=0`)).status, 400)
})

t.test('more is put together than any replica was given at once only where a node was seen to give as much', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t, { max: 50 })]
  const a = await replica(t, node.url, redis)
  for (const start of [0, 50]) t.equal(await saidOf(a, pageAt(handle, start, 50), node.page(start, 50)), stored)
  await written(a, 2)
  const b = await replica(t, node.url, redis)
  t.match(await saidOf(b, pageAt(handle, 10, 60), node.page(10, 60)), /short_page/)
  t.equal(await saidOf(b, pageAt(handle, 10, 50), node.page(10, 50)), fromRedis)
})

t.test('a Redis that has lost everything takes nothing away, and what is read after that is shared again; one that is back is read again', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const [a, b] = [await replica(t, node.url, redis), await replica(t, node.url, redis)]
  for (const start of [0, 50]) t.equal(await saidOf(a, pageAt(handle, start, 50), node.page(start, 50)), stored)
  await written(a, 2)
  await redis.client.flushall()
  t.equal(await saidOf(a, pageAt(stream(7), 25, 50), node.page(25, 50)), fromMemory)
  t.equal(await saidOf(b, pageAt(handle, 25, 50), node.page(25, 50)), stored)
  await written(b, 1)
  const c = await replica(t, node.url, redis)
  t.equal(await saidOf(c, pageAt(handle, 30, 45), node.page(30, 45)), fromRedis)
  await redis.kill()
  t.equal(await saidOf(c, pageAt(stream(7), 31, 40), node.page(31, 40)), fromMemory)
  t.equal(await saidOf(c, pageAt(handle, 0, 50), node.page(0, 50)), stored)
})

t.test('a page without its record is not served, nor a record without its page, nor what is not what was written', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const a = await replica(t, node.url, redis)
  for (const start of [0, 50]) await a.get(pageAt(handle, start, 50))
  await written(a, 2)
  const index = `varve:1:4.1 json pages ${long}/7 0`
  t.equal(await redis.client.zcard(index), 2)
  t.ok(
    await redis.client.pttl(index) > 3_000_000 && await redis.client.pttl(index) <= 3_600_000,
    'as long as its last page'
  )
  const fresh = async (): Promise<TestVarve> => await replica(t, node.url, redis)
  const asked = async (target: string, body: string): Promise<string> => await saidOf(await fresh(), target, body)
  await redis.client.del(pageKey(7, 50, 50))
  t.equal(await asked(pageAt(stream(7), 25, 50), node.page(25, 50)), stored)
  await until(
    async () => await redis.client.zcard(index) === 2,
    'the record that led nowhere is gone, and a new one there'
  )
  await redis.client.rename(index, 'away')
  t.equal(await asked(pageAt(handle, 0, 50), node.page(0, 50)), stored, 'whoever purges would not find it')
  await until(async () => await redis.client.zcard(index) === 1, 'with its record')
  await redis.client.zadd(index, 0, 'no record', 0, `${'0'.repeat(16)}zz`)
  t.equal(await asked(pageAt(handle, 10, 10), node.page(10, 10)), fromRedis)
  // In every bit what a varve wrote, but not of these events.
  const value = await decodeStored(
    pageKey(7, 0, 50).slice('varve:1:'.length),
    await redis.client.getBuffer(pageKey(7, 0, 50)) ?? Buffer.alloc(0)
  )
  for (
    const body of [
      node.page(1, 50),
      node.page(0, 50, 8),
      '[]',
      '{}',
      node.page(0, 50).replace('"sequence_number":"3"', '"sequence_number":"4"')
    ]
  ) {
    const other = storedOf(value.key, body, { release: 'aaaa', stamped: value.stamped })
    await redis.client.set(pageKey(7, 0, 50), await encodeStored(other), 'PX', 100_000)
    const varve = await fresh()
    t.equal(await saidOf(varve, pageAt(stream(7), 10, 10), node.page(10, 10)), stored, body.slice(0, 40))
    await written(varve, 1)
    await redis.client.zrem(index, '000000000000000a0000000000000013')
  }
})

t.test('what a path was seen to lead to last is what replicas that have not asked are told; what is no name leads nowhere', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const a = await replica(t, node.url, redis)
  await a.get(pageAt(handle, 0, 50))
  await written(a, 1)
  node.state.creation = 8
  await a.get(pageAt(handle, 60, 5))
  await written(a, 2)
  const b = await replica(t, node.url, redis)
  t.equal(await saidOf(b, pageAt(handle, 0, 50), node.page(0, 50, 8)), stored)
  t.equal(await saidOf(b, pageAt(handle, 61, 2), node.page(61, 2, 8)), fromRedis)
  t.equal(await saidOf(b, pageAt(stream(7), 0, 50), node.page(0, 50, 7)), fromRedis)
  const { stamped, key } = await decodeStored(
    name.slice('varve:1:'.length),
    await redis.client.getBuffer(name) ?? Buffer.alloc(0)
  )
  for (const body of ['/v1/accounts/0x1/events/7', `${long}/x`, '']) {
    await redis.client.set(
      name,
      await encodeStored(
        storedOf(key, body, { contentType: 'text/plain', stamped, etag: tagOf('text/plain', Buffer.from(body)) })
      ),
      'PX',
      100_000
    )
    const varve = await replica(t, node.url, redis)
    t.equal(await saidOf(varve, pageAt(handle, 61, 2), node.page(61, 2, 8)), stored, body)
    await written(varve, 1)
  }
})

t.test('a page of a stream that no guid names is shared for its path; one that was kept so though its guid is known is not believed', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t, { account: 'one' })]
  const a = await replica(t, node.url, redis)
  await a.get(pageAt(handle, 0, 50))
  await written(a, 1)
  t.equal(await saidOf(await replica(t, node.url, redis), pageAt(handle, 0, 50), node.page(0, 50)), fromRedis)
  const own = `${name}?start=0&limit=50`
  const value = await decodeStored(own.slice('varve:1:'.length), await redis.client.getBuffer(own) ?? Buffer.alloc(0))
  node.state.account = '0x1'
  await redis.client.set(
    own,
    await encodeStored(storedOf(value.key, node.page(0, 50, 3), { stamped: value.stamped })),
    'PX',
    100_000
  )
  t.equal(await saidOf(await replica(t, node.url, redis), pageAt(handle, 0, 50), node.page(0, 50)), stored)
})

t.test('a purge of a page forgets every page that has any of its events, in all memories and in Redis, under both paths, and nothing else', async t => {
  for (const path of [handle, stream(7)]) {
    const [redis, node] = [await startRedis(t), await eventNode(t)]
    const [a, b, c] = [
      await replica(t, node.url, redis),
      await replica(t, node.url, redis),
      await replica(t, node.url, redis)
    ]
    for (const start of [0, 50, 100]) await a.get(pageAt(handle, start, 50))
    await written(a, 3)
    // Each knows what it knows by another path; c has what was put together.
    for (const [varve, by] of [[b, stream(7)], [c, handle]] as const) {
      for (const start of [0, 50, 100]) t.equal((await varve.get(pageAt(by, start, 50))).headers[status], fromRedis)
    }
    t.equal((await c.get(pageAt(handle, 30, 40))).headers[status], fromMemory)
    t.equal((await b.get(pageAt(stream(7), 45, 10))).headers[status], fromMemory)
    node.state.versionOf = sequence => 1001 + sequence * 2
    // By one that has asked by no handle yet, or has put nothing together.
    t.match(await purge(b, pageAt(path, 49, 2)), { status: 200, body: /"everywhere":true/ })
    for (const start of [0, 50]) t.ok(await isAway(redis, pageKey(7, start, 50)))
    t.notOk(await isAway(redis, pageKey(7, 100, 50)))
    t.equal(await isAway(redis, name), path === handle)
    await until(
      async () =>
        await c.metric('varve_cache_entries{tier="memory"}') === 1 &&
        await a.metric('varve_cache_entries{tier="memory"}') === 1,
      'all have heard'
    )
    for (const varve of [a, b, c]) {
      t.equal(
        (await varve.get(pageAt(stream(7), 110, 5))).headers[status],
        fromMemory,
        'what has none of them in common stays'
      )
      for (
        const [by, start, limit] of [[handle, 30, 40], [stream(7), 45, 10], [handle, 0, 50], [
          stream(7),
          50,
          50
        ]] as const
      ) t.equal((await varve.get(pageAt(by, start, limit))).body, node.page(start, limit), `${by} ${start}`)
    }
  }
})

t.test('a purge while a page of the same events is being read leaves nothing of it, by whatever path it is read and purged', async t => {
  for (
    const [read, purged] of [[handle, handle], [handle, stream(7)], [stream(7), handle], [
      stream(7),
      stream(7)
    ]] as const
  ) {
    const [redis, node] = [await startRedis(t), await eventNode(t)]
    const varve = await replica(t, node.url, redis)
    // By creation number and by handle there is one name where it is known which.
    if (read !== purged) await varve.get(pageAt(handle, 400, 1))
    const asked = node.asked.length
    let release: () => void = () => {}
    node.state.held = new Promise(resolve => {
      release = resolve
    })
    const reading = varve.get(pageAt(read, 0, 50))
    await until(async () => node.asked.length > asked, 'it is asked for')
    t.match(await purge(varve, pageAt(purged, 49, 2)), { status: 200 })
    release()
    t.equal((await reading).status, 200)
    t.equal((await varve.get(pageAt(read, 0, 50))).headers[status], stored, `${read} ${purged}`)
  }
})

t.test('a purge while Redis is asked where a path leads, or for a page, leaves nothing of what was on its way', async t => {
  for (const isNamed of [false, true]) {
    const [redis, node] = [await startRedis(t), await eventNode(t)]
    const a = await replica(t, node.url, redis)
    for (const start of [0, 50]) await a.get(pageAt(handle, start, 50))
    await written(a, 2)
    const network = await slowRedis(t, redis)
    const b = await varveAt(t, node.url, {
      cache: { redis: { url: network.url, timeoutMs: 5000 } },
      admin: { listen: '127.0.0.1:0', token }
    })
    if (isNamed) t.equal((await b.get(pageAt(handle, 50, 50))).headers[status], fromRedis)
    const asks = network.asks
    network.hold()
    const reading = b.get(pageAt(handle, 0, 50))
    await until(async () => network.asks > asks, 'it is looked for')
    const before = network.asks
    const purging = purge(b, pageAt(handle, 10, 1))
    // It is forgotten here before Redis is asked what that means.
    await until(async () => network.asks > before, 'it is forgotten')
    network.release()
    t.match(await purging, { status: 200 })
    t.equal((await reading).headers[status], stored, 'what is read of a node after that')
    t.equal((await b.get(pageAt(handle, 0, 50))).body, node.page(0, 50))
  }
})

t.test('what cannot be of this chain is no part, and a purge of numbers that no stream has harms nothing', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const a = await replica(t, node.url, redis)
  await a.get(pageAt(handle, 0, 50))
  await written(a, 1)
  const key = pageKey(7, 0, 50)
  const kept = await decodeStored(key.slice('varve:1:'.length), await redis.client.getBuffer(key) ?? Buffer.alloc(0))
  const { position } = kept.stamped
  // A lower version at a later time.
  const head = { ...position.head, version: 500n, timestampUsec: position.head.timestampUsec * 2n }
  await redis.client.set(
    key,
    await encodeStored({ ...kept, stamped: { ...kept.stamped, position: { ...position, head } } }),
    'PX',
    100_000
  )
  const b = await replica(t, node.url, redis)
  await b.get('/v1/accounts/0x42/modules')
  t.equal(await saidOf(b, pageAt(stream(7), 0, 50), node.page(0, 50)), stored)
  for (const url of [`${handle}?start=18446744073709551615&limit=65535`, `${handle}?start=0&limit=0`]) {
    t.match(await purge(b, url), { status: 200 })
  }
  t.equal(await saidOf(b, pageAt(stream(7), 0, 50), node.page(0, 50)), fromMemory)
})

t.test('a handle that a node has said to be gone is not led by what other replicas saw of it before that, and is by what is seen after it', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const a = await replica(t, node.url, redis)
  t.equal(await saidOf(a, pageAt(handle, 0, 10), node.page(0, 10)), stored)
  await written(a, 1)
  node.state.creation = undefined
  node.state.head += 1000
  for (const start of [300, 0]) t.equal((await a.get(pageAt(handle, start, 10))).status, 404)
  t.equal(await saidOf(a, pageAt(stream(7), 0, 10), node.page(0, 10, 7)), fromMemory, 'its stream is there still')
  node.state.creation = 7
  node.state.head += 1000
  t.equal(await saidOf(a, pageAt(handle, 20, 10), node.page(20, 10)), stored)
  t.equal(await saidOf(a, pageAt(handle, 0, 10), node.page(0, 10)), fromMemory)
})

t.test('a page of more events than any node gives costs Redis little more than any other', async t => {
  const [redis, node] = [await startRedis(t), await eventNode(t)]
  const varve = await replica(t, node.url, redis)
  const commands = async (): Promise<number> =>
    Number(/total_commands_processed:(\d+)/.exec(await redis.client.info('stats'))?.[1])
  const cost = async (limit: number): Promise<number> => {
    const before = await commands()
    for (let nth = 0; nth < 20; nth++) await varve.get(pageAt(stream(7), 200_000 + nth, limit))
    return (await commands() - before) / 20
  }
  const [usual, huge] = [await cost(100), await cost(65535)]
  t.ok(huge < usual * 2, `${usual} commands and ${huge}`)
})

import t, { type Test } from 'tap'
import { computeEtag } from '../../src/cache/entry.js'
import { decodeEntry, encodeEntry } from '../../src/cache/entry-codec.js'
import { sendRequest, type TestResponse } from '../support/client.js'
import { startEventUpstream, handlePath, streamPath } from '../support/event-upstream.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { untilWritten } from '../support/replicas.js'
import { memoryHitStatus, redisHitStatus, cacheStatusHeader, storedMissStatus } from '../support/cache-status.js'
import { storedEntryOf } from '../support/redis-tier.js'
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

async function purge (varve: TestVarve, url: string): Promise<TestResponse> {
  return await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ url })
  })
}

const isAway = async (redis: RedisProcess, key: string): Promise<boolean> => await redis.client.exists(key) === 0
/** Returns the Cache-Status of a page whose body must be the upstream's. */
const cacheStatusOf = async (varve: TestVarve, target: string, body: string): Promise<string> => {
  const got = await varve.get(target)
  t.equal(got.body, body, target)
  return String(got.headers[cacheStatusHeader])
}

t.test('a page that one replica read by either path is a hit for all by both paths', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const a = await replica(t, upstream.url, redis)
  for (const start of [0, 50]) {
    t.equal(await cacheStatusOf(a, pageAt(handlePath, start, 50), upstream.page(start, 50)), storedMissStatus)
  }
  await untilWritten(a, 2)
  const requestCount = upstream.requests.length
  for (const paths of [[handlePath, streamPath(7)], [streamPath(7), handlePath]] as const) {
    const b = await replica(t, upstream.url, redis)
    t.equal(await cacheStatusOf(b, pageAt(paths[0], 50, 50), upstream.page(50, 50)), redisHitStatus)
    // Counts another Redis read: the replica must first read from Redis the stream that the handle names.
    t.equal(
      await cacheStatusOf(b, pageAt(paths[1], 50, 50), upstream.page(50, 50)),
      paths[1] === handlePath ? redisHitStatus : memoryHitStatus
    )
    for (const path of paths) {
      t.equal(await cacheStatusOf(b, pageAt(path, 50, 50), upstream.page(50, 50)), memoryHitStatus)
    }
  }
  t.equal(upstream.requests.length, requestCount)
  const b = await replica(t, upstream.url, redis)
  t.equal(
    await cacheStatusOf(b, pageAt(handlePath, 25, 50), upstream.page(25, 50)),
    storedMissStatus,
    'another start is another page'
  )
})

t.test('pages at both ends of the number range and across index keys are found and purged', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t, { count: 5000, max: 2000 })]
  const a = await replica(t, upstream.url, redis)
  for (const [start, limit] of [[0, 1], [1000, 30], [1020, 30], [1040, 1500]] as const) {
    t.equal(await cacheStatusOf(a, pageAt(handlePath, start, limit), upstream.page(start, limit)), storedMissStatus)
  }
  await untilWritten(a, 4)
  const b = await replica(t, upstream.url, redis)
  for (const [start, limit] of [[0, 1], [1000, 30], [1020, 30], [1040, 1500]] as const) {
    t.equal(
      await cacheStatusOf(b, pageAt(handlePath, start, limit), upstream.page(start, limit)),
      redisHitStatus,
      `${start} ${limit}`
    )
  }
  t.match(await purge(b, pageAt(streamPath(7), 2100, 1)), { status: 200 })
  t.ok(await isAway(redis, pageKey(7, 1040, 1500)), 'its events are in three keys of the index')
  t.equal(await redis.client.exists(pageKey(7, 0, 1), pageKey(7, 1000, 30), pageKey(7, 1020, 30)), 3)
  t.equal((await b.get(`${handlePath}?start=18446744073709551615&limit=5`)).body, '[]')
  t.equal((await b.get(`${handlePath}?start=5&limit=0`)).status, 400)
})

t.test('losing all data in Redis loses no reads; new reads are shared again', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const [a, b] = [await replica(t, upstream.url, redis), await replica(t, upstream.url, redis)]
  for (const start of [0, 50]) {
    t.equal(await cacheStatusOf(a, pageAt(handlePath, start, 50), upstream.page(start, 50)), storedMissStatus)
  }
  await untilWritten(a, 2)
  await redis.client.flushall()
  t.equal(await cacheStatusOf(a, pageAt(streamPath(7), 0, 50), upstream.page(0, 50)), memoryHitStatus)
  t.equal(await cacheStatusOf(b, pageAt(handlePath, 0, 50), upstream.page(0, 50)), storedMissStatus)
  await untilWritten(b, 1)
  const c = await replica(t, upstream.url, redis)
  t.equal(await cacheStatusOf(c, pageAt(handlePath, 0, 50), upstream.page(0, 50)), redisHitStatus)
  await redis.kill()
  t.equal(await cacheStatusOf(c, pageAt(streamPath(7), 0, 50), upstream.page(0, 50)), memoryHitStatus)
  t.equal(await cacheStatusOf(c, pageAt(handlePath, 50, 50), upstream.page(50, 50)), storedMissStatus)
})

t.test('varve does not serve a page in Redis that a purge could not find', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t, { count: 5000 })]
  const a = await replica(t, upstream.url, redis)
  const pages = [[0, 50], [1000, 50]] as const
  for (const [start, limit] of pages) await a.get(pageAt(handlePath, start, limit))
  await untilWritten(a, 2)
  const index = `varve:1:4.1 json pages ${long}/7`
  t.same([await redis.client.zcard(`${index} 0`), await redis.client.zcard(`${index} 1`)], [2, 1])
  t.ok(
    await redis.client.pttl(`${index} 0`) > 3_000_000 && await redis.client.pttl(`${index} 0`) <= 3_600_000,
    'the key lives as long as its last page'
  )
  const readPage = async (start: number): Promise<string> => {
    const varve = await replica(t, upstream.url, redis)
    const cacheStatus = await cacheStatusOf(varve, pageAt(streamPath(7), start, 50), upstream.page(start, 50))
    if (cacheStatus === storedMissStatus) await untilWritten(varve, 1)
    return cacheStatus
  }
  for (const [start] of pages) t.equal(await readPage(start), redisHitStatus)
  // Deletes one key of two: either alone leads a purge to only some of the events.
  for (const key of [`${index} 0`, `${index} 1`]) {
    await redis.client.del(key)
    t.equal(await readPage(1000), storedMissStatus, key)
    t.equal(await readPage(1000), redisHitStatus, 'it is recorded again')
  }
  await redis.client.del(pageKey(7, 0, 50))
  t.equal(await readPage(0), storedMissStatus, 'a record without its page')
  await redis.client.zadd(`${index} 0`, 0, 'no record', 0, `${'0'.repeat(16)}zz`)
  t.match(await purge(a, pageAt(streamPath(7), 10, 1)), { status: 200 })
  t.ok(await isAway(redis, pageKey(7, 0, 50)), 'records of another form harm no purge')
})

t.test('replicas learn the latest stream of a path from Redis; an invalid name leads nowhere', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const a = await replica(t, upstream.url, redis)
  await a.get(pageAt(handlePath, 0, 50))
  await untilWritten(a, 1)
  upstream.state.creation = 8
  await a.get(pageAt(handlePath, 60, 5))
  await untilWritten(a, 2)
  const b = await replica(t, upstream.url, redis)
  t.equal(await cacheStatusOf(b, pageAt(handlePath, 0, 50), upstream.page(0, 50, 8)), storedMissStatus)
  t.equal(await cacheStatusOf(b, pageAt(handlePath, 60, 5), upstream.page(60, 5, 8)), redisHitStatus)
  t.equal(await cacheStatusOf(b, pageAt(streamPath(7), 0, 50), upstream.page(0, 50, 7)), redisHitStatus)
  const { stamped, key } = await decodeEntry(
    name.slice('varve:1:'.length),
    await redis.client.getBuffer(name) ?? Buffer.alloc(0)
  )
  for (const body of ['/v1/accounts/0x1/events/7', `${long}/x`, '']) {
    await redis.client.set(
      name,
      await encodeEntry(
        storedEntryOf(key, body, {
          contentType: 'text/plain',
          stamped,
          etag: computeEtag('text/plain', Buffer.from(body))
        })
      ),
      'PX',
      100_000
    )
    const varve = await replica(t, upstream.url, redis)
    t.equal(await cacheStatusOf(varve, pageAt(handlePath, 60, 5), upstream.page(60, 5, 8)), storedMissStatus, body)
    await untilWritten(varve, 1)
  }
})

t.test('a page of a stream without guid is shared by path, and distrusted once the guid is known', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t, { account: 'one' })]
  const a = await replica(t, upstream.url, redis)
  await a.get(pageAt(handlePath, 0, 50))
  await untilWritten(a, 1)
  t.equal(
    await cacheStatusOf(await replica(t, upstream.url, redis), pageAt(handlePath, 0, 50), upstream.page(0, 50)),
    redisHitStatus
  )
  const own = `${name}?start=0&limit=50`
  const value = await decodeEntry(own.slice('varve:1:'.length), await redis.client.getBuffer(own) ?? Buffer.alloc(0))
  upstream.state.account = '0x1'
  await redis.client.set(
    own,
    await encodeEntry(storedEntryOf(value.key, upstream.page(0, 50, 3), { stamped: value.stamped })),
    'PX',
    100_000
  )
  t.equal(
    await cacheStatusOf(await replica(t, upstream.url, redis), pageAt(handlePath, 0, 50), upstream.page(0, 50)),
    storedMissStatus
  )
})

t.test('purging a page purges every page that shares an event, everywhere and by both paths', async t => {
  for (const path of [handlePath, streamPath(7)]) {
    const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
    const [a, b, c] = [
      await replica(t, upstream.url, redis),
      await replica(t, upstream.url, redis),
      await replica(t, upstream.url, redis)
    ]
    const pages = [[0, 50], [50, 50], [30, 40], [45, 10], [100, 50]] as const
    for (const [start, limit] of pages) await a.get(pageAt(handlePath, start, limit))
    await untilWritten(a, pages.length)
    // Gives each replica its page by another path.
    for (const [varve, by] of [[b, streamPath(7)], [c, handlePath]] as const) {
      for (const [start, limit] of pages) {
        t.equal((await varve.get(pageAt(by, start, limit))).headers[cacheStatusHeader], redisHitStatus)
      }
    }
    upstream.state.versionOf = sequence => 1001 + sequence * 2
    // Purges on a replica that has not used the handle yet.
    t.match(await purge(b, pageAt(path, 49, 2)), { status: 200, body: /"everywhere":true/ })
    for (const [start, limit] of pages.slice(0, -1)) t.ok(await isAway(redis, pageKey(7, start, limit)))
    t.notOk(await isAway(redis, pageKey(7, 100, 50)))
    t.equal(await isAway(redis, name), path === handlePath)
    await until(
      async () =>
        await c.metric('varve_cache_entries{tier="memory"}') === 1 &&
        await a.metric('varve_cache_entries{tier="memory"}') === 1,
      'one entry is left in memory'
    )
    for (const varve of [a, b, c]) {
      t.equal(
        (await varve.get(pageAt(streamPath(7), 100, 50))).headers[cacheStatusHeader],
        memoryHitStatus,
        'pages without a shared event stay'
      )
      for (
        const [by, start, limit] of [[handlePath, 30, 40], [streamPath(7), 45, 10], [handlePath, 0, 50], [
          streamPath(7),
          50,
          50
        ]] as const
      ) t.equal((await varve.get(pageAt(by, start, limit))).body, upstream.page(start, limit), `${by} ${start}`)
    }
  }
})

t.test('a purge during a read of the same events leaves no page, by any pair of paths', async t => {
  for (
    const [read, purged] of [[handlePath, handlePath], [handlePath, streamPath(7)], [streamPath(7), handlePath], [
      streamPath(7),
      streamPath(7)
    ]] as const
  ) {
    const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
    const varve = await replica(t, upstream.url, redis)
    // Reads by handle first: then the name by creation number is known for both paths.
    if (read !== purged) await varve.get(pageAt(handlePath, 400, 1))
    const requestCount = upstream.requests.length
    let release: () => void = () => {}
    upstream.state.blockedUntil = new Promise(resolve => {
      release = resolve
    })
    const reading = varve.get(pageAt(read, 0, 50))
    await until(async () => upstream.requests.length > requestCount, 'the upstream got the request')
    t.match(await purge(varve, pageAt(purged, 49, 2)), { status: 200 })
    release()
    t.equal((await reading).status, 200)
    t.equal((await varve.get(pageAt(read, 0, 50))).headers[cacheStatusHeader], storedMissStatus, `${read} ${purged}`)
  }
})

// A sync reads other keys, at any time.
const getOfStreamName = /\nget\r\n\$\d+\r\n[^\r]*\/events\//

t.test('a purge during a look-up in Redis leaves nothing of the response in transit', async t => {
  for (
    const [isNamed, command, path] of [[false, getOfStreamName, handlePath], [true, getOfStreamName, handlePath], [
      true,
      /zscore/,
      streamPath(7)
    ]] as const
  ) {
    const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
    const a = await replica(t, upstream.url, redis)
    for (const start of [0, 50]) await a.get(pageAt(handlePath, start, 50))
    await untilWritten(a, 2)
    const network = await slowRedis(t, redis)
    const b = await varveAt(t, upstream.url, {
      cache: { redis: { url: network.url, timeoutMs: 5000 } },
      admin: { listen: '127.0.0.1:0', token }
    })
    if (isNamed) t.equal((await b.get(pageAt(handlePath, 50, 50))).headers[cacheStatusHeader], redisHitStatus)
    let isDelayed = false
    network.scriptedResponse = chunk => {
      if (!isDelayed && command.test(String(chunk))) {
        isDelayed = true
        network.withhold()
      }
      return undefined
    }
    const reading = b.get(pageAt(handlePath, 0, 50))
    await until(async () => isDelayed, `Redis has responded ${command}`)
    const purging = purge(b, pageAt(path, 10, 1))
    // Purges memory before it reads from Redis which stream the path names.
    await until(async () => getOfStreamName.test(network.received), 'the stream name is looked up in Redis')
    network.release()
    t.match(await purging, { status: 200 })
    t.equal((await reading).headers[cacheStatusHeader], storedMissStatus, 'pages fetched after the purge')
    t.equal((await b.get(pageAt(handlePath, 0, 50))).body, upstream.page(0, 50))
  }
})

t.test('varve does not serve a page of another chain, and purging numbers of no stream is harmless', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const a = await replica(t, upstream.url, redis)
  await a.get(pageAt(handlePath, 0, 50))
  await untilWritten(a, 1)
  const key = pageKey(7, 0, 50)
  const entry = await decodeEntry(key.slice('varve:1:'.length), await redis.client.getBuffer(key) ?? Buffer.alloc(0))
  const { position } = entry.stamped
  // Forges a lower version at a later time.
  const head = { ...position.head, version: 500n, timestampUsec: position.head.timestampUsec * 2n }
  await redis.client.set(
    key,
    await encodeEntry({ ...entry, stamped: { ...entry.stamped, position: { ...position, head } } }),
    'PX',
    100_000
  )
  const b = await replica(t, upstream.url, redis)
  await b.get('/v1/accounts/0x42/modules')
  t.equal(await cacheStatusOf(b, pageAt(streamPath(7), 0, 50), upstream.page(0, 50)), storedMissStatus)
  for (const url of [`${handlePath}?start=18446744073709551615&limit=65535`, `${handlePath}?start=0&limit=0`]) {
    t.match(await purge(b, url), { status: 200 })
  }
  t.equal(await cacheStatusOf(b, pageAt(streamPath(7), 0, 50), upstream.page(0, 50)), memoryHitStatus)
})

t.test('after an upstream reports a handle as gone, older shared records of it are ignored', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const a = await replica(t, upstream.url, redis)
  t.equal(await cacheStatusOf(a, pageAt(handlePath, 0, 10), upstream.page(0, 10)), storedMissStatus)
  await untilWritten(a, 1)
  upstream.state.creation = undefined
  upstream.state.head += 1000
  for (const start of [300, 0]) t.equal((await a.get(pageAt(handlePath, start, 10))).status, 404)
  t.equal(
    await cacheStatusOf(a, pageAt(streamPath(7), 0, 10), upstream.page(0, 10, 7)),
    memoryHitStatus,
    'its stream is still there'
  )
  upstream.state.creation = 7
  upstream.state.head += 1000
  t.equal(await cacheStatusOf(a, pageAt(handlePath, 20, 10), upstream.page(20, 10)), storedMissStatus)
  t.equal(await cacheStatusOf(a, pageAt(handlePath, 0, 10), upstream.page(0, 10)), memoryHitStatus)
})

t.test('a page of more events than any node returns costs Redis hardly more than others', async t => {
  const [redis, upstream] = [await startRedis(t), await startEventUpstream(t)]
  const varve = await replica(t, upstream.url, redis)
  const commands = async (): Promise<number> =>
    Number(/total_commands_processed:(\d+)/.exec(await redis.client.info('stats'))?.[1])
  const cost = async (limit: number): Promise<number> => {
    const before = await commands()
    for (let nth = 0; nth < 20; nth++) await varve.get(pageAt(streamPath(7), 200_000 + nth, limit))
    return (await commands() - before) / 20
  }
  const [usual, huge] = [await cost(100), await cost(65535)]
  t.ok(huge < usual * 2, `${usual} commands and ${huge}`)
})

import t from 'tap'
import { readKindOf, readKinds, type TrueResponse } from '../support/deceptive/read-kinds.js'
import { startDeceptiveUpstream, setTrueResponse } from '../support/deceptive/deceptive-upstream.js'
import { faultsIn } from '../support/deceptive/try-lies.js'
import { WireClient } from '../support/deceptive/wire-client.js'
import {
  encodeChunked,
  thenEnd,
  thenKeepAlive,
  type ScriptedBytes,
  responseBytes
} from '../support/deceptive/response-bytes.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const lies: ReadonlyArray<readonly [string, (truth: TrueResponse) => ScriptedBytes]> = [
  ['a body cut short', truth => thenEnd(responseBytes(truth, { framing: ['content-length: 999'] }))],
  [
    'a transfer coding',
    truth =>
      thenEnd(responseBytes(truth, { framing: ['transfer-encoding: gzip, chunked'], body: encodeChunked(truth.body) }))
  ],
  ['no position', truth => thenKeepAlive(responseBytes({ ...truth, positionHeaders: {} }))],
  ['two media types', truth => thenKeepAlive(responseBytes(truth, { lines: ['content-type: text/html'] }))],
  [
    'a redirect',
    truth => thenKeepAlive(responseBytes(truth, { first: 'HTTP/1.1 302 Found', lines: ['location: /evil'] }))
  ],
  ['two cursors', truth => thenKeepAlive(responseBytes(truth, { lines: ['x-aptos-cursor: aa', 'x-aptos-cursor: bb'] }))]
]

t.test('a false response never reaches the Redis tier, and another replica serves the true one', async t => {
  const redis = await startRedis(t)
  const upstream = await startDeceptiveUpstream(t)
  const replicas = await Promise.all(
    [1, 2].map(async () =>
      await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } }, upstream: { timeoutMs: 1000 } })
    )
  )
  const [first, second] = [new WireClient(replicas[0]?.url ?? ''), new WireClient(replicas[1]?.url ?? '')]
  t.teardown(() => {
    first.close()
    second.close()
  })
  await until(async () => (await replicas[1]?.metric('varve_redis_up')) === 1, 'Redis is up')
  let nth = 0
  for (const [name, lie] of lies) {
    for (const kind of readKinds.filter(({ isStored }) => isStored)) {
      const truth = kind.trueResponse(++nth)
      setTrueResponse(truth)
      upstream.lies.set(truth.target, lie(truth))
      t.same(faultsIn('broken', truth, await first.send(kind.request(nth))), [], `${name}: ${kind.name}`)
      upstream.lies.delete(truth.target)
      t.same(
        faultsIn('truth', truth, await second.send(kind.request(nth))),
        [],
        `${name}: ${kind.name}, at another replica`
      )
    }
  }
  t.ok(nth > 20)
})

t.test('an impossible release is ignored, and responses fetched meanwhile are stored in Redis', async t => {
  const redis = await startRedis(t)
  const upstream = await startDeceptiveUpstream(t)
  upstream.lies.set(
    '/v1',
    thenKeepAlive(
      responseBytes({
        ...readKindOf('info').trueResponse(0),
        target: '/v1',
        body: `{"git_hash":"${'a'.repeat(100_000)}"}`
      })
    )
  )
  const varve = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } } })
  const client = new WireClient(varve.url)
  t.teardown(() => {
    client.close()
  })
  await until(async () => (await varve.metric('varve_redis_up')) === 1, 'Redis is up')
  const stored = readKinds.filter(({ isStored }) => isStored)
  for (const [at, kind] of stored.entries()) {
    const truth = kind.trueResponse(at + 1)
    setTrueResponse(truth)
    t.same(faultsIn('truth', truth, await client.send(kind.request(at + 1))), [], kind.name)
  }
  await until(
    async () => (await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0) >= stored.length,
    'all entries are written to Redis'
  )
})

import t from 'tap'
import { seal } from '../../src/cluster/seal.js'
import { generationIn } from '../../src/cluster/shapes.js'
import { startRedis } from '../support/redis-server.js'
import { allLooked, at, control, keyedBy, nodeOf, published, written } from '../support/replicas.js'
import { fromRedis, status } from '../support/said.js'
import { storedOf } from '../support/shared-store.js'
import { ok, stamps, stubNode } from '../support/stub-node.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const { stamped } = storedOf('', '')
const anchors = [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }]

t.test('a generation that came by a file is followed only by whose node has one of its blocks, and is proven for all by that', async t => {
  const redis = await startRedis(t)
  const mute = await stubNode(t, (_request, response) => {
    ok(response, '[]')
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{}')
  })
  const varve = await varveAt(t, mute.url, { cache: { redis: { url: redis.url } } })
  await varve.get('/v1/accounts/0x1/modules?ledger_version=500')
  await until(async () => (await published(redis)).length === 1, 'it is settled')
  await redis.client.hset(control, 'g98', seal({ anchors, head: stamped, isUnproven: true }))
  await allLooked(redis)
  t.same(keyedBy(varve), [], 'its node has no blocks to tell by')
  await redis.client.hset(control, 'g99', seal({ anchors, head: stamped }))
  await until(() => keyedBy(varve).includes(99), 'what another replica has proven is followed as ever')
})

t.test('a replica that can prove it goes over to it and says so to the others, and none recalls it that never had it', async t => {
  const redis = await startRedis(t)
  const node = await nodeOf(t)
  const varve = await varveAt(t, node.url, { cache: { redis: { url: redis.url } } })
  await varve.get(at(2000))
  await written(varve, 1)
  await until(async () => (await redis.client.keys('varve:1:upstream *')).length === 1, 'it is remembered')
  await varve.stop({ drainMs: 0 })
  await redis.client.hset(control, 'g98', seal({ anchors, head: stamped, isUnproven: true }))
  await node.close()
  const alone = await varveAt(t, node.url, { cache: { redis: { url: redis.url } } })
  t.match(
    await alone.get(at(2000)),
    { headers: { [status]: fromRedis } },
    'what its node was last known to have is served as ever'
  )
  await alone.stop({ drainMs: 0 })
  const again = await nodeOf(t)
  const running = await varveAt(t, again.url, { cache: { redis: { url: redis.url } } })
  await running.get('/v1')
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes('"height"') === true, 'it is settled')
  // All that it knows itself, so that there is nothing else to say.
  const known = generationIn(await redis.client.hget(control, 'g1') ?? '')
  await redis.client.hset(control, 'g9999', seal({ ...known, isUnproven: true }))
  await until(() => keyedBy(running).includes(9999), 'it has the block')
  await until(async () => !(await redis.client.hget(control, 'g9999') ?? '').includes('isUnproven'), 'and says so')
})

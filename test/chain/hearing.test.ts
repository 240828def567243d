import t from 'tap'
import { encodeWithChecksum } from '../../src/cluster/checksummed-json.js'
import { startRedis } from '../support/redis-server.js'
import { controlKey, adoptedGenerations, publishedGenerations } from '../support/replicas.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const { stamped } = storedEntryOf('', '')
const anchors = [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }]

t.test('without blocks by height a replica follows a generation only if it has no anchors', async t => {
  const redis = await startRedis(t)
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{}')
  })
  const varve = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } } })
  await varve.get('/v1/accounts/0x1/modules?ledger_version=500')
  await until(async () => (await publishedGenerations(redis)).length === 1, 'it is published')
  await redis.client.hset(controlKey, 'g98', encodeWithChecksum({ anchors, head: stamped }))
  await until(() => varve.log.some(({ msg }) => /another chain/.test(String(msg))), 'it is rejected')
  t.same(adoptedGenerations(varve), [])
  await redis.client.hset(controlKey, 'g99', encodeWithChecksum({ anchors: [], head: stamped }))
  await until(() => adoptedGenerations(varve).length > 0, 'it is followed')
  t.same(adoptedGenerations(varve), [99])
})

import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { type RedisConfigChange, isRedisUp } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const message = 'Redis authentication failed: reads go on without it'
const modules = '/v1/accounts/0x1/modules?ledger_version=500'

async function varveWith (t: Test, redis: RedisConfigChange): Promise<TestVarve> {
  const upstream = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  return await varveAt(t, upstream.url, { cache: { redis } })
}

/** Expects /readyz, /status.json and the log to name the rejection, and none of them to repeat a password. */
async function reportsReason (t: Test, varve: TestVarve, reason: RegExp): Promise<void> {
  await until(() => varve.log.some(({ msg }) => msg === message), 'the log has the message')
  t.match(varve.log.filter(({ msg }) => msg === message), [{ level: 40, reason }], 'once')
  const { body: readiness } = await sendRequest(varve.adminUrl, '/readyz')
  t.match(JSON.parse(readiness), { ready: true, degraded: [/^Redis authentication failed: /] })
  t.match(JSON.parse(readiness), { degraded: [reason] })
  const { body: status } = await sendRequest(varve.adminUrl, '/status.json')
  t.match(JSON.parse(status), { tiers: { redis: { state: 'down', reason: 'authentication failed' } } })
  t.match(await varve.get(modules), { status: 200 }, 'reads continue')
  t.notMatch(readiness + status + JSON.stringify(varve.log), /s3cret|r1ght/)
}

t.test('varve reports a wrong or missing Redis password as failed authentication', async t => {
  const redis = await startRedis(t, { password: 'r1ght' })
  for (
    const [place, reason] of [[{ url: `redis://:s3cret@${redis.host}` }, /WRONGPASS/], [{
      url: `redis://${redis.host}`
    }, /NOAUTH/]] as const
  ) {
    await reportsReason(t, await varveWith(t, place), reason)
  }
})

t.test('varve reports a Redis user without the needed permissions as failed authentication', async t => {
  const redis = await startRedis(t)
  await redis.client.acl('SETUSER', 'cache', 'on', '>s3cret', '~other:*', '+@all')
  await reportsReason(t, await varveWith(t, { url: redis.url, username: 'cache', password: 's3cret' }), /NOPERM/)
})

t.test('varve reports a Redis password changed at run time and reconnects once it is right', async t => {
  const redis = await startRedis(t)
  const varve = await varveWith(t, { url: redis.url })
  await until(async () => await isRedisUp(varve), 'varve reaches Redis')
  await redis.client.config('SET', 'requirepass', 'r1ght')
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'yes')
  await reportsReason(t, varve, /NOAUTH/)
  await redis.client.config('SET', 'requirepass', '')
  await until(async () => await isRedisUp(varve), 'varve reaches Redis')
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), {
    degraded: [],
    tiers: { redis: { state: 'up', reason: undefined } }
  })
})

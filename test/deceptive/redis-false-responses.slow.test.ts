import t from 'tap'
import { isRedisUp, marginMs, readiness, slowestOf, startReplicaPair } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'

const timeoutMs = 100

t.test('a well-formed Redis response that does not fit its command is a miss', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const { first, upstream, newTarget } = await startReplicaPair(t, { url: net.url, timeoutMs })
  const listen = async (): Promise<boolean> => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2
  await until(listen, 'both replicas listen to news')
  for (const lie of [':1\r\n', '+OK\r\n', '$5\r\nhello\r\n', '*1\r\n:7\r\n', '*0\r\n', '$-1\r\n', '-ERR no\r\n']) {
    // Sends one response per command.
    net.scriptedResponse = commands => lie.repeat(commands.toString('latin1').split(/\*\d+\r\n/).length - 1)
    const targets = [newTarget(), newTarget(), newTarget(), newTarget()]
    const requestCount = upstream.requests.length
    t.ok(await slowestOf(t, first, targets) < timeoutMs + marginMs, JSON.stringify(lie))
    t.equal(upstream.requests.length, requestCount + targets.length)
    t.equal((await readiness(first)).status, 200)
    net.scriptedResponse = undefined
    net.dropConnections()
    await until(
      async () => await isRedisUp(first) && await listen(),
      'the first replica reaches Redis, and both listen'
    )
  }
})

import t from 'tap'
import { isUp, marginMs, readiness, sharersAt, slowestOf } from '../support/redis-faults.js'
import { startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/slow-redis.js'
import { until } from '../support/until.js'

const timeoutMs = 100

t.test('what is well-formed and no answer to what was asked is a miss', async t => {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const { one, node, fresh } = await sharersAt(t, { url: net.url, timeoutMs })
  const listen = async (): Promise<boolean> => (await redis.client.pubsub('NUMSUB', 'varve:1:news'))[1] === 2
  await until(listen, 'both listen')
  for (const lie of [':1\r\n', '+OK\r\n', '$5\r\nhello\r\n', '*1\r\n:7\r\n', '*0\r\n', '$-1\r\n', '-ERR no\r\n']) {
    // An answer to each question.
    net.answer = asked => lie.repeat(asked.toString('latin1').split(/\*\d+\r\n/).length - 1)
    const targets = [fresh(), fresh(), fresh(), fresh()]
    const asked = node.asked.length
    t.ok(await slowestOf(t, one, targets) < timeoutMs + marginMs, JSON.stringify(lie))
    t.equal(node.asked.length, asked + targets.length)
    t.equal((await readiness(one)).status, 200)
    net.answer = undefined
    net.cut()
    await until(async () => await isUp(one) && await listen(), 'it is up again')
  }
})

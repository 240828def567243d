import t from 'tap'
import { startRedis } from '../support/redis-server.js'
import { openRedisTier } from '../support/redis-tier.js'

t.test('a command timeout of the Redis client is reported as timed out', async t => {
  const redis = await startRedis(t)
  const { link } = await openRedisTier(t, redis.url)
  t.equal(link.lastError, 'not connected yet')
  await t.rejects(link.run('get', async () => {
    throw new Error('Command timed out')
  }))
  t.equal(link.lastError, 'timed out')
  await t.rejects(link.run('get', async () => {
    throw new Error('Connection is closed.')
  }))
  t.equal(link.lastError, 'timed out', 'the later error has less detail than its cause')
})

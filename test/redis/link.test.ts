import t from 'tap'
import { startRedis } from '../support/redis-server.js'
import { openRedisTier } from '../support/redis-tier.js'

t.test('what the client gave up by itself, as after a standstill, is told as what it is: timed out', async t => {
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
  t.equal(link.lastError, 'timed out', 'which says less than what broke it')
})

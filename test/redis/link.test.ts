import t from 'tap'
import { startRedis } from '../support/redis-server.js'
import { storeAt } from '../support/shared-store.js'

t.test('what the client gave up by itself, as after a standstill, is told as what it is: no answer in time', async t => {
  const redis = await startRedis(t)
  const { link } = await storeAt(t, redis.url)
  t.equal(link.lastError, 'not reached yet')
  await t.rejects(link.ask('get', async () => {
    throw new Error('Command timed out')
  }))
  t.equal(link.lastError, 'no answer in time')
  await t.rejects(link.ask('get', async () => {
    throw new Error('Connection is closed.')
  }))
  t.equal(link.lastError, 'no answer in time', 'which says less than what broke it')
})

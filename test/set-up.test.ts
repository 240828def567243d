import { Redis } from 'ioredis'
import t from 'tap'
import { redisServer } from './support/redis-server.js'

t.test('the tests have a real redis-server, which the set-up found or installed', async t => {
  const { path } = await redisServer(t)
  const redis = new Redis({ path })
  t.teardown(() => { redis.disconnect() })
  t.equal(await redis.set('varve', 'laid down once'), 'OK')
  t.equal(await redis.get('varve'), 'laid down once')
  t.match(await redis.info('server'), /redis_version:\d+/)
})

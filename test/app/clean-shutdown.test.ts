import t from 'tap'
import { startRedis } from '../support/redis-server.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { startCommand } from '../cli/command.js'

t.test('a clean stop with Redis logs "stopped" last, and no warning', async t => {
  const redis = await startRedis(t)
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const varve = startCommand(t, [
    '--upstream',
    stub.url,
    '--redis',
    redis.url,
    '--listen',
    '127.0.0.1:0',
    '--admin',
    '127.0.0.1:0'
  ])
  const connections = async (): Promise<number> =>
    String(await redis.client.client('LIST')).split('name=varve ').length - 1
  await varve.waitForOutput(/Redis is up/)
  t.ok(await connections() > 0)
  varve.signal('SIGTERM')
  t.equal(await varve.code, 0)
  // The connections close after the last log record.
  await until(async () => await connections() === 0, 'all connections are closed')
  const lines = varve.log()
  t.match(lines.slice(lines.findIndex(({ msg }) => msg === 'stopping')), [{ msg: 'stopping' }, { msg: 'stopped' }])
  t.match(lines.at(-1), { msg: 'stopped' })
})

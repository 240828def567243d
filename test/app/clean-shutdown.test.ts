import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { respondOk, startEmptyUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { startCommand } from '../cli/command.js'

const balancerIntervalMs = 100

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

/** Sends requests through a balancer that asks /readyz for two varves while one of them stops; returns the failures. */
async function failuresOfARestart (t: Test, drainSeconds: number): Promise<number> {
  const { url } = await startEmptyUpstream(t)
  const replicas = await Promise.all([0, 1].map(async () => await varveAt(t, url, { shutdown: { drainSeconds } })))
  const inService = new Set(replicas)
  // Removes a replica after two failed checks.
  const checks = new Map(replicas.map(each => [each, 0]))
  const timer = setInterval(() => {
    for (const each of inService) {
      sendRequest(each.adminUrl, '/readyz').catch(() => ({ status: 0 })).then(({ status }) => {
        checks.set(each, status === 200 ? 0 : (checks.get(each) ?? 0) + 1)
        if ((checks.get(each) ?? 0) >= 2) inService.delete(each)
      }, () => {})
    }
  }, balancerIntervalMs)
  t.teardown(() => {
    clearInterval(timer)
  })
  const stopped = replicas[0]?.stop()
  let failures = 0
  while (inService.size === replicas.length) {
    for (const each of inService) await each.get('/v1/info').catch(() => failures++)
  }
  for (const each of inService) await each.get('/v1/info').catch(() => failures++)
  await stopped
  return failures
}

t.test('a drain longer than the balancer\'s interval times its failed checks loses no request', async t => {
  t.equal(await failuresOfARestart(t, 6 * balancerIntervalMs / 1000), 0)
  t.ok(await failuresOfARestart(t, 0) > 0, 'without a drain the balancer notices too late')
})

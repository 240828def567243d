import t from 'tap'
import { type Sandbox, startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startRedis } from '../support/redis-server.js'
import { anySpace, blockTarget, startSandboxNode, untilAgreed } from '../support/replicas.js'
import { cacheStatusHeader, redisHitStatus } from '../support/cache-status.js'
import { startInFrontOf } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'

const whole = { prunedBlocks: 0 }

t.test('after a restart with all upstreams down, entries of the remembered chain are served', async t => {
  const redis = await startRedis(t)
  const sandboxes = [
    await startSandboxNode(t, whole),
    await startSandboxNode(t, whole),
    await startSandboxNode(t, { ...whole, chainId: 9 })
  ]
  const sharedConfig = { cache: { redis: { url: redis.url, timeoutMs: 2000 } } }
  const { varve, get, upStates } = await startInFrontOf(t, sandboxes, sharedConfig)
  await until(async () => await upStates() === '1,1,0', 'the third is quarantined')
  const { body } = await get(blockTarget(2000))
  const remembered = async (): Promise<string[]> => await redis.client.keys('varve:1:last space *')
  await until(
    async () =>
      (await remembered()).length === 2 && (await redis.client.keys(`${anySpace} json blocks ???`)).length === 1,
    'the block is in Redis',
    8000
  )
  await varve.stop({ drainMs: 0 })
  await Promise.all(sandboxes.map(async sandbox => {
    await sandbox.close()
  }))
  const late = await startInFrontOf(t, sandboxes, sharedConfig)
  t.match(await late.get(blockTarget(2000)), { status: 200, body, headers: { [cacheStatusHeader]: redisHitStatus } })
  t.match(await late.get(blockTarget(3000)), { status: 503 })
})

t.test('replicas stay on the old chain while an upstream has it, then change to the new one', async t => {
  const redis = await startRedis(t)
  const ports = [await freePort(), await freePort()]
  const [first, second] = await Promise.all(ports.map(async port => await startSandbox({ ...whole, blockMs: 0, port })))
  const sharedConfig = { cache: { redis: { url: redis.url, timeoutMs: 2000 } } }
  const sandboxes = [first, second].filter((sandbox): sandbox is Sandbox => sandbox !== undefined)
  const [a, b] = [await startInFrontOf(t, sandboxes, sharedConfig), await startInFrontOf(t, sandboxes, sharedConfig)]
  for (const one of [a, b]) await until(async () => await one.upStates() === '1,1', 'both upstreams are up')
  const before = (await a.get(blockTarget(2000))).body
  t.equal((await b.get(blockTarget(2000))).body, before)
  await first?.close()
  await startSandboxNode(t, { ...whole, seed: 7, blocks: 3000, port: ports[0] ?? 0 })
  for (const one of [a, b]) await until(async () => await one.upStates() === '0,1', 'only the second upstream is up')
  t.same([await a.varve.metric('varve_chain_resets_total'), (await b.get(blockTarget(2000))).body], [0, before])
  await second?.close()
  const now = await startSandboxNode(t, { ...whole, seed: 7, blocks: 3000, port: ports[1] ?? 0 })
  for (const one of [a, b]) await until(async () => await one.upStates() === '1,1', 'both upstreams are up', 5000)
  const after = (await sendRequest(now.url, blockTarget(2000))).body
  t.not(after, before)
  for (const one of [a, b]) {
    await until(async () => (await one.get(blockTarget(2000))).body === after, 'the new chain is served')
  }
  await untilAgreed([a.varve, b.varve])
})

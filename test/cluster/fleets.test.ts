import t from 'tap'
import { type Sandbox, startSandbox } from '#sandbox'
import { ask } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startRedis } from '../support/redis-server.js'
import { at, keyedBy, nodeOf } from '../support/replicas.js'
import { fromRedis, status } from '../support/said.js'
import { inFrontOf } from '../support/several.js'
import { until } from '../support/until.js'

const whole = { prunedBlocks: 0 }

t.test('what nodes have had is remembered of those of the chain alone, and after a restart with all of them down what they had is served', async t => {
  const redis = await startRedis(t)
  const nodes = [await nodeOf(t, whole), await nodeOf(t, whole), await nodeOf(t, { ...whole, chainId: 9 })]
  const sharing = { cache: { redis: { url: redis.url, timeoutMs: 500 } } }
  const { varve, get, up } = await inFrontOf(t, nodes, sharing)
  await until(async () => await up() === '1,1,0', 'the third is fenced')
  const { body } = await get(at(2000))
  const remembered = async (): Promise<string[]> => await redis.client.keys('varve:1:upstream *')
  await until(
    async () =>
      (await remembered()).length === 2 && (await redis.client.keys('varve:1:4.1 json blocks ???')).length === 1,
    'all is written',
    8000
  )
  await varve.stop({ drainMs: 0 })
  await Promise.all(nodes.map(async node => {
    await node.close()
  }))
  const late = await inFrontOf(t, nodes, sharing)
  t.match(await late.get(at(2000)), { status: 200, body, headers: { [status]: fromRedis } })
  t.match(await late.get(at(3000)), { status: 503 })
})

t.test('replicas with nodes of their own walk through a reset together: whoever has a node on the old chain left stays, and nothing of it is served after', async t => {
  const redis = await startRedis(t)
  const ports = [await freePort(), await freePort()]
  const [first, second] = await Promise.all(ports.map(async port => await startSandbox({ ...whole, blockMs: 0, port })))
  const sharing = { cache: { redis: { url: redis.url, timeoutMs: 500 } } }
  const nodes = [first, second].filter((node): node is Sandbox => node !== undefined)
  const [a, b] = [await inFrontOf(t, nodes, sharing), await inFrontOf(t, nodes, sharing)]
  for (const one of [a, b]) await until(async () => await one.up() === '1,1', 'both are believed')
  const before = (await a.get(at(2000))).body
  t.equal((await b.get(at(2000))).body, before)
  await first?.close()
  await nodeOf(t, { ...whole, seed: 7, blocks: 3000, port: ports[0] ?? 0 })
  for (const one of [a, b]) await until(async () => await one.up() === '0,1', 'the first is fenced')
  t.same([await a.varve.metric('varve_chain_resets_total'), (await b.get(at(2000))).body], [0, before])
  await second?.close()
  const now = await nodeOf(t, { ...whole, seed: 7, blocks: 3000, port: ports[1] ?? 0 })
  for (const one of [a, b]) await until(async () => await one.up() === '1,1', 'both are on the new chain', 5000)
  const after = (await ask(now.url, at(2000))).body
  t.not(after, before)
  for (const one of [a, b]) await until(async () => (await one.get(at(2000))).body === after, 'the new chain is served')
  await until(() => keyedBy(a.varve).at(-1) === keyedBy(b.varve).at(-1), 'they are of one mind')
})

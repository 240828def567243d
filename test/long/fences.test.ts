import { Agent, createServer, request } from 'node:http'
import { type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { ask } from '../support/client.js'
import { idleFromNow } from '../support/idle-from-now.js'
import { nodeOf } from '../support/replicas.js'
import { inFrontOf, several } from '../support/several.js'
import { until } from '../support/until.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const block = (version: number): string => `/v1/blocks/by_version/${version}`
const whole = { prunedBlocks: 0 }

/** What a node stands behind that keeps its connections, whichever node it leads to. */
async function frontOf (t: Test, to: string): Promise<{ url: string, to: string }> {
  const self = { url: '', to }
  const agent = new Agent({ keepAlive: true })
  const server = createServer((asked, response) => {
    const passed = request(
      self.to + (asked.url ?? ''),
      { method: asked.method, headers: asked.headers, agent },
      answer => {
        const headers = Object.entries(answer.headers).filter(([name]) =>
          name !== 'connection' && name !== 'keep-alive'
        )
        response.writeHead(answer.statusCode ?? 500, Object.fromEntries(headers))
        answer.pipe(response)
      }
    )
    passed.on('error', () => {
      response.destroy()
    })
    asked.pipe(passed)
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(async () => {
    server.closeAllConnections()
    agent.destroy()
    await new Promise(resolve => {
      server.close(resolve)
    })
  })
  self.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return self
}

t.test('a longer chain that takes a node\'s place behind an open connection is found out within some seconds, however quiet it is', async t => {
  const [old, longer] = [await nodeOf(t, whole), await nodeOf(t, { ...whole, seed: 7, blocks: 3000 })]
  const front = await frontOf(t, old.url)
  const { get, varve } = await inFrontOf(t, [front as never], { head: { pollMs: 500 } })
  const before = (await get(block(2000))).body
  await until(() => old.asked.of('block_by_height') > 0, 'the chain is known')
  front.to = longer.url
  await until(async () => await varve.metric('varve_chain_resets_total') === 1, 'it is found out', 14_000)
  const after = (await get(block(2000))).body
  t.not(after, before)
  t.equal(after, (await ask(longer.url, block(2000))).body)
})

t.test('in a fleet it is fenced', async t => {
  const [stays, old, longer] = [
    await nodeOf(t, whole),
    await nodeOf(t, whole),
    await nodeOf(t, { ...whole, seed: 7, blocks: 3000 })
  ]
  const front = await frontOf(t, old.url)
  const { get, told, up } = await inFrontOf(t, [stays, front as never], { head: { pollMs: 500 } })
  await until(async () => await up() === '1,1', 'both are believed')
  front.to = longer.url
  await until(async () => (await told('n2'))['state'] === 'fenced', 'it is found out', 14_000)
  t.equal((await get(block(2000))).body, (await ask(stays.url, block(2000))).body)
})

t.test('a node that rations its blocks by height, and is well otherwise, is believed on', async t => {
  const node = await nodeOf(t, whole)
  const { get } = await inFrontOf(t, [node])
  await until(() => node.asked.of('block_by_height') > 0, 'the chain is known')
  const fault = node.faults.add({ kind: 'rateLimited', match: 'block_by_height' })
  const began = performance.now()
  let failures = 0
  for (let version = 0; performance.now() - began < 12_000; version++) {
    if ((await get(modules(version % 20_000))).status !== 200) failures++
    await new Promise(resolve => {
      setTimeout(resolve, 20)
    })
  }
  t.equal(failures, 0)
  fault.remove()
})

t.test('a node that hung for long, whatever its time-out, is used again within two seconds', async t => {
  const { nodes: [, two], asked } = await several(t, [{}, {}], { head: { pollMs: 1000 } }, { timeoutMs: 20_000 })
  two?.faults.add({ kind: 'hang' })
  await new Promise(resolve => {
    setTimeout(resolve, 9500)
  })
  two?.faults.clear()
  asked()
  const before = two?.asked.of('index') ?? 0
  await until(() => (two?.asked.of('index') ?? 0) > before, 'it is looked at', 2000)
})

t.test('a node that takes its time to be compared holds up no reads of another', async t => {
  const { nodes: [, two], get } = await several(t, [{}, {}], { head: { pollMs: 500 } })
  two?.faults.add({ kind: 'hang', match: 'block_by_height' })
  let slowestMs = 0
  const began = performance.now()
  for (let version = 0; performance.now() - began < 12_000; version++) {
    const waited = idleFromNow()
    t.equal((await get(modules(version))).status, 200)
    slowestMs = Math.max(slowestMs, waited())
    await new Promise(resolve => {
      setTimeout(resolve, 50)
    })
  }
  t.ok(slowestMs < 400, `${slowestMs} ms`)
})

t.test('where nodes disagree at the start, the first in the order of the configuration that answers in time decides, however long it takes', async t => {
  const [first, second] = [await nodeOf(t, { ...whole, seed: 7, blocks: 3000 }), await nodeOf(t, whole)]
  const slow = first.faults.add({ kind: 'slow', ms: 9000 })
  const { get, told } = await inFrontOf(t, [first, second], { head: { pollMs: 500 } }, { timeoutMs: 12_000 })
  slow.remove()
  await until(async () => (await told('n2'))['state'] === 'fenced', 'the other is fenced', 14_000)
  t.equal((await get(block(2000))).body, (await ask(first.url, block(2000))).body)
})

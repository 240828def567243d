import { Agent, request } from 'node:http'
import t, { type Test } from 'tap'
import { configSchema, type Config } from '../../src/config/schema.js'
import { nodeOf } from '../support/replicas.js'
import { ok, stubNode } from '../support/stub-node.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { pidsOf, quiet } from '../support/workers.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

t.test('a node is asked once for all where it stands', async t => {
  const node = await nodeOf(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quiet, workers: 3, head: { pollMs: 200 } })
  await varve.get(modules(2000))
  const before = node.asked.of('index')
  const began = performance.now()
  await until(() => node.asked.of('index') >= before + 10, 'it is asked ten times', 10_000)
  const tookMs = performance.now() - began
  t.ok(tookMs > 1500, `ten polls took ${tookMs} ms, and three processes would take a third of that`)
  node.ledger.grow(1)
  await until(async () => (await Promise.all([1, 2, 3].map(async () => (await varve.get(modules(2000))).headers['x-node-ledger-version']))).every(version => version === String(node.ledger.head.version)), 'each hears of it')
})

/** Reads without end on kept connections, as a client with a pool does; tells what went wrong. */
function keepReading (t: Test, url: string): { stop: () => Promise<{ answers: number, failures: string[] }> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const failures: string[] = []
  let answers = 0
  const over = new AbortController()
  const read = async (nth: number): Promise<void> => await new Promise(resolve => {
    const sent = request(`${url}${modules(1000 + nth % 500)}`, { agent }, response => {
      if (response.statusCode !== 200) failures.push(`status ${response.statusCode}`)
      response.resume().once('end', () => { answers++; resolve() }).once('error', error => { failures.push(error.message); resolve() })
    })
    sent.once('error', error => { failures.push(error.message); resolve() })
    sent.end()
  })
  const readers = Promise.all([0, 1, 2, 3].map(async lane => { for (let nth = lane; !over.signal.aborted; nth += 4) await read(nth) }))
  const stop = async (): Promise<{ answers: number, failures: string[] }> => {
    over.abort()
    await readers
    agent.destroy()
    return { answers, failures }
  }
  t.teardown(stop)
  return { stop }
}

/** The same configuration with something changed. */
function changed (nodeUrl: string, change: object): Config {
  return configSchema.parse({ listen: '127.0.0.1:0', upstreams: [{ name: 'node', url: nodeUrl }], head: { pollMs: 600_000 }, ...quiet, workers: 2, ...change })
}

t.test('another configuration is rolled over the workers one by one, and no request is lost meanwhile', async t => {
  const [node, other] = [await nodeOf(t, { prunedBlocks: 0 }), await nodeOf(t, { prunedBlocks: 0 })]
  const varve = await varveAt(t, node.url, { ...quiet, workers: 2 })
  const before = await pidsOf(varve)
  const reading = keepReading(t, varve.url)
  const keys = await varve.exchange(changed(other.url, { passThrough: 'none', workers: 3 }))
  const { answers, failures } = await reading.stop()
  t.same(failures, [])
  t.ok(answers > 100, `${answers} answers`)
  t.same(keys, [])
  const after = await pidsOf(varve)
  t.equal(after.length, 3)
  t.notOk(after.some(pid => before.includes(pid)))
  t.match(await varve.get('/v1/spec.json'), { status: 404 })
  other.asked.reset()
  t.match(await varve.get(modules(777)), { status: 200 })
  t.equal(other.asked.of('account_modules'), 1)
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}') !== undefined, true, 'what those counted that have left is there')
})

t.test('a configuration that a new worker cannot start on is refused, and the old workers go on', async t => {
  const node = await nodeOf(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quiet, workers: 2 })
  const before = await pidsOf(varve)
  const dir = t.testdir({ 'c.pem': 'no certificate', 'k.pem': 'no key' })
  await t.rejects(varve.exchange(changed(node.url, { tls: { certFile: `${dir}/c.pem`, keyFile: `${dir}/k.pem` } })), /PEM/)
  t.same(await pidsOf(varve), before)
  t.match(await varve.get(modules(2000)), { status: 200 })
})

t.test('a node is never asked for more at once by all workers than it is configured to take', async t => {
  let atOnce = 0
  let most = 0
  const node = await stubNode(t, (_request, response) => {
    most = Math.max(most, ++atOnce)
    setTimeout(() => { atOnce--; ok(response, '[]') }, 30)
  })
  const varve = await varveAt(t, node.url, { ...quiet, workers: 2, upstream: { maxConcurrent: 4 } })
  const answers = await Promise.all(Array.from({ length: 14 }, async (_none, nth) => await varve.get(modules(20 + nth))))
  t.same(answers.map(({ status }) => status).filter(status => status !== 200), [])
  t.ok(most <= 4, `${most} at once`)
})

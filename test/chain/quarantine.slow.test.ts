import { Agent, createServer, request } from 'node:http'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { startIdleMeter, until } from '../support/until.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode } from '../support/replicas.js'
import { startInFrontOf, startWithUpstreams, type VarveWithUpstreams } from '../support/multiple-upstreams.js'
import { listening } from '../support/stub-upstream.js'
import { together } from '../support/together.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const block = (version: number): string => `/v1/blocks/by_version/${version}`
const whole = { prunedBlocks: 0 }

// Runs tests side by side, because each waits some ten seconds with hardly any work.
t.jobs = 6
// Creates an object per test: tap writes into it, so tests with one object would run the same callback.

/** A front that keeps its connections open, whichever upstream it leads to. */
async function frontOf (t: Test, to: string): Promise<{ url: string, to: string }> {
  const self = { url: '', to }
  const agent = new Agent({ keepAlive: true })
  const server = createServer((clientRequest, response) => {
    const passed = request(
      self.to + (clientRequest.url ?? ''),
      { method: clientRequest.method, headers: clientRequest.headers, agent },
      upstreamResponse => {
        const headers = Object.entries(upstreamResponse.headers).filter(([name]) =>
          name !== 'connection' && name !== 'keep-alive'
        )
        response.writeHead(upstreamResponse.statusCode ?? 500, Object.fromEntries(headers))
        upstreamResponse.pipe(response)
      }
    )
    passed.on('error', () => {
      response.destroy()
    })
    clientRequest.pipe(passed)
  })
  server.keepAliveTimeout = 60_000
  t.teardown(() => {
    agent.destroy()
  })
  return Object.assign(self, { url: await listening(t, server) })
}

t.test(
  'varve notices a longer chain behind an open connection within seconds without traffic',
  together(),
  async t => {
    const [old, longer] = [
      await startSandboxNode(t, whole),
      await startSandboxNode(t, { ...whole, seed: 7, blocks: 3000 })
    ]
    const front = await frontOf(t, old.url)
    const { get, varve } = await startInFrontOf(t, [front as never], { head: { pollMs: 500 } })
    const before = (await get(block(2000))).body
    await until(() => old.requests.countFor('block_by_height') > 0, 'the chain is known')
    front.to = longer.url
    await until(async () => await varve.metric('varve_chain_resets_total') === 1, 'the chain reset is counted', 14_000)
    const after = (await get(block(2000))).body
    t.not(after, before)
    t.equal(after, (await sendRequest(longer.url, block(2000))).body)
  }
)

t.test('hosts that share a tail each notice a longer chain behind an open connection', together(), async t => {
  const redis = await startRedis(t)
  const old = await startSandboxNode(t, { ...whole, blockMs: 100 })
  const longer = await startSandboxNode(t, { ...whole, seed: 7, blocks: 3000, blockMs: 100 })
  const front = await frontOf(t, old.url)
  const start = async (): Promise<VarveWithUpstreams> =>
    await startInFrontOf(t, [front as never], {
      follow: { mode: 'on', maxAgeMs: 300, verify: 0 },
      cache: { redis: { url: redis.url } }
    })
  const hosts = [await start(), await start()]
  const reads = setInterval(() => {
    for (const { get } of hosts) get('/v1/accounts/0x1/module/coin').catch(() => {})
  }, 50)
  t.teardown(() => {
    clearInterval(reads)
  })
  const waited = async ({ varve }: VarveWithUpstreams): Promise<number> =>
    await varve.metric('varve_leases_total{kind="tail",result="waited"}') ?? 0
  await until(async () => await waited(hosts[0] as never) + await waited(hosts[1] as never) > 20, 'one takes digests')
  for (const { get } of hosts) await get(block(2000))
  front.to = longer.url
  const { body } = await sendRequest(longer.url, block(2000))
  for (const { get } of hosts) {
    await until(async () => (await get(block(2000))).body === body, 'it serves the longer chain', 14_000)
  }
})

t.test('an upstream that rations its blocks by height but is healthy otherwise stays verified', together(), async t => {
  const upstream = await startSandboxNode(t, whole)
  const { get } = await startInFrontOf(t, [upstream])
  await until(() => upstream.requests.countFor('block_by_height') > 0, 'the chain is known')
  const fault = upstream.faults.add({ kind: 'rateLimited', match: 'block_by_height' })
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

t.test('an upstream that hung for long is used again within two seconds, whatever its timeout', together(), async t => {
  const { upstreams: [, two], takeRequestCounts } = await startWithUpstreams(t, [{}, {}], { head: { pollMs: 1000 } }, {
    timeoutMs: 20_000
  })
  two?.faults.add({ kind: 'hang' })
  await new Promise(resolve => {
    setTimeout(resolve, 9500)
  })
  two?.faults.clear()
  takeRequestCounts()
  const before = two?.requests.countFor('index') ?? 0
  await until(() => (two?.requests.countFor('index') ?? 0) > before, 'the second upstream was polled', 2000)
})

t.test('an upstream that is slow to compare delays no reads of another', together(), async t => {
  const { upstreams: [, two], get } = await startWithUpstreams(t, [{}, {}], { head: { pollMs: 500 } })
  two?.faults.add({ kind: 'hang', match: 'block_by_height' })
  let slowestMs = 0
  const began = performance.now()
  for (let version = 0; performance.now() - began < 12_000; version++) {
    const waited = startIdleMeter()
    t.equal((await get(modules(version))).status, 200)
    slowestMs = Math.max(slowestMs, waited())
    await new Promise(resolve => {
      setTimeout(resolve, 50)
    })
  }
  t.ok(slowestMs < 400, `${slowestMs} ms`)
})

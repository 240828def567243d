import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { configSchema, type Config } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode, portOf } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { startIdleMeter } from '../support/idle-meter.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { allPidsOf, requestEachWorker, pidsOf, quietConfig, token } from '../support/workers.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

t.test('a node is asked once for all where it stands', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 3, head: { pollMs: 200 } })
  await varve.get(modules(2000))
  const before = node.requests.countFor('index')
  const began = performance.now()
  await until(() => node.requests.countFor('index') >= before + 10, 'it is asked ten times', 10_000)
  const tookMs = performance.now() - began
  t.ok(tookMs > 1500, `ten polls took ${tookMs} ms, and three processes would take a third of that`)
  node.ledger.grow(1)
  await until(
    async () =>
      (await Promise.all([1, 2, 3].map(async () => (await varve.get(modules(2000))).headers['x-node-ledger-version'])))
        .every(version => version === String(node.ledger.head.version)),
    'each hears of it'
  )
})

/** Reads without end on kept connections, as a client with a pool does; tells what went wrong. */
function keepReading (t: Test, url: string): { stop: () => Promise<{ answers: number, failures: string[] }> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const failures: string[] = []
  let answers = 0
  const over = new AbortController()
  const read = async (nth: number): Promise<void> =>
    await new Promise(resolve => {
      const sent = request(`${url}${modules(1000 + nth % 500)}`, { agent }, response => {
        if (response.statusCode !== 200) failures.push(`status ${response.statusCode}`)
        response.resume().once('end', () => {
          answers++
          resolve()
        }).once('error', error => {
          failures.push(error.message)
          resolve()
        })
      })
      sent.once('error', error => {
        failures.push(error.message)
        resolve()
      })
      sent.end()
    })
  const readers = Promise.all([0, 1, 2, 3].map(async lane => {
    for (let nth = lane; !over.signal.aborted; nth += 4) await read(nth)
  }))
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
  return configSchema.parse({
    listen: '127.0.0.1:0',
    upstreams: [{ name: 'node', url: nodeUrl }],
    head: { pollMs: 600_000 },
    ...quietConfig,
    workers: 2,
    ...change
  })
}

t.test('another configuration is rolled over the workers one by one, and no request is lost meanwhile', async t => {
  const [node, other] = [await startSandboxNode(t, { prunedBlocks: 0 }), await startSandboxNode(t, { prunedBlocks: 0 })]
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 2 })
  const before = await allPidsOf(varve, 2)
  const reading = keepReading(t, varve.url)
  const keys = await varve.reload(changed(other.url, { passThrough: 'none', workers: 3 }))
  const { answers, failures } = await reading.stop()
  t.same(failures, [])
  t.ok(answers > 100, `${answers} answers`)
  t.same(keys, [])
  const after = await allPidsOf(varve, 3)
  t.notOk(after.some(pid => before.includes(pid)))
  t.match(await varve.get('/v1/spec.json'), { status: 404 })
  other.requests.reset()
  t.match(await varve.get(modules(777)), { status: 200 })
  t.equal(other.requests.countFor('account_modules'), 1)
  t.equal(
    await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}') !==
      undefined,
    true,
    'what those counted that have left is there'
  )
})

t.test('a worker that dies while another configuration is rolled over them leaves as many as are wanted, all of the new one', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 3 })
  const before = await allPidsOf(varve, 3)
  const rolled = varve.reload(changed(node.url, { passThrough: 'none', workers: 3 }))
  process.kill(before[2] ?? NaN, 'SIGKILL')
  await rolled
  t.notOk((await allPidsOf(varve, 3)).some(pid => before.includes(pid)))
  for (let nth = 0; nth < 6; nth++) t.match(await varve.get('/v1/spec.json'), { status: 404 })
  t.equal(await varve.metric('varve_workers'), 3)
})

t.test('a node is never asked for more at once by all workers than it is configured to take', async t => {
  let atOnce = 0
  let most = 0
  const node = await startStubUpstream(t, (_request, response) => {
    most = Math.max(most, ++atOnce)
    setTimeout(() => {
      atOnce--
      respondOk(response, '[]')
    }, 30)
  })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 2, upstream: { maxConcurrent: 9 } })
  const answers = await Promise.all(
    Array.from({ length: 14 }, async (_none, nth) => await varve.get(modules(20 + nth)))
  )
  t.same(answers.map(({ status }) => status).filter(status => status !== 200), [])
  t.ok(most <= 9, `${most} at once`)
})

/** Asks on a fresh connection; tells how that ended, `hung` where it did not within eight seconds. */
async function askFresh (url: string, target: string): Promise<string> {
  return await new Promise(resolve => {
    const sent = request(`${url}${target}`, { agent: false }, response => {
      response.resume().once('close', () => {
        resolve(String(response.statusCode))
      })
    })
    sent.once('error', (error: Error & { code?: string }) => {
      resolve(String(error.code))
    })
    sent.setTimeout(8000, () => {
      resolve('hung')
      sent.destroy()
    })
    sent.end()
  })
}

t.test('nobody is left hanging by workers that die under a load of fresh connections, not even by those that were on their way to one', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 2 })
  const over = new AbortController()
  const ends = new Set<string>()
  const lanes = Promise.all(Array.from({ length: 24 }, async () => {
    for (let nth = 0; !over.signal.aborted; nth++) ends.add(await askFresh(varve.url, modules(1000 + nth % 50)))
  }))
  for (let kill = 0; kill < 6; kill++) {
    const [killed = NaN] = await allPidsOf(varve, 2)
    process.kill(killed, 'SIGKILL')
    await until(async () => {
      const pids = await pidsOf(varve)
      return pids.length === 2 && !pids.includes(killed)
    }, 'another is in its place')
  }
  over.abort()
  await lanes
  t.notOk(ends.has('hung'), [...ends].join())
  t.equal(await varve.metric('varve_workers_lost_total'), 6)
})

t.test('a worker that hangs is replaced as one that has died, and whoever was handed to it hears so', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 2 })
  const [stuck = NaN] = await allPidsOf(varve, 2)
  process.kill(stuck, 'SIGSTOP')
  const asked = Promise.all(Array.from({ length: 10 }, async (_none, nth) =>
    await new Promise<string>(resolve => {
      request(`${varve.url}${modules(1000 + nth)}`, { agent: false }, response => {
        response.resume().once('close', () => {
          resolve('answered')
        })
      })
        .once('error', () => {
          resolve('closed')
        }).end()
    })))
  const waited = startIdleMeter()
  const { body } = await sendRequest(varve.adminUrl, '/readyz')
  t.ok(waited() < 900, 'a worker that hangs keeps nobody waiting who asks whether varve is ready')
  t.match(body, /0 of 2 workers are ready|1 of 2 workers is ready/)
  await until(async () => (await sendRequest(varve.adminUrl, '/readyz')).status === 200, 'the other is ready')
  await until(
    async () => {
      const pids = await pidsOf(varve)
      return pids.length === 2 && !pids.includes(stuck)
    },
    'another is in its place',
    25_000
  )
  t.equal((await asked).filter(how => how === 'answered').length >= 8, true)
})

t.test('workers of two configurations that name another node alike hear nothing of each other', async t => {
  const [old, other] = [
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 0, chainId: 5, seed: 7 })
  ]
  const varve = await varveAt(t, old.url, { ...quietConfig, workers: 2, head: { pollMs: 100 } })
  other.faults.add({ kind: 'slow', ms: 700, match: 'index' })
  await varve.reload(changed(other.url, { head: { pollMs: 100 } }))
  const chains = new Set<unknown>()
  for (let nth = 0; nth < 8; nth++) {
    const { status, headers } = await varve.get(modules(2000))
    t.equal(status, 200)
    chains.add(headers['x-node-chain-id'])
  }
  t.same([...chains], ['5'])
  await until(
    async () => (await sendRequest(varve.adminUrl, '/readyz')).body === '{"ready":true,"degraded":[]}',
    'all are well'
  )
})

t.test('when the chain is reset all workers go over to the new one, and none serves what it kept of the old one', async t => {
  const old = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, old.url, { ...quietConfig, workers: 2, head: { pollMs: 200 } })
  const target = '/v1/blocks/by_version/2000'
  const before = (await varve.get(target)).body
  await requestEachWorker(varve, target)
  await until(() => old.requests.countFor('block_by_height') >= 4, 'each knows the chain by some blocks')
  const port = portOf(old)
  await old.close()
  t.equal((await varve.get(target)).body, before, 'history is served with no node')
  const longer = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port })
  const now = (await sendRequest(longer.url, target)).body
  t.not(now, before)
  await until(async () => {
    const bodies = []
    for (let nth = 0; nth < 4; nth++) bodies.push((await varve.get(target)).body)
    return bodies.every(body => body === now)
  }, 'each has gone over')
  for (let nth = 0; nth < 20; nth++) t.equal((await varve.get(target)).body, now)
})

t.test('workers share a Redis as replicas do: what one has read the others need not, and a purge reaches it and all of them', async t => {
  const [node, redis] = [await startSandboxNode(t, { prunedBlocks: 0 }), await startRedis(t)]
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 3, cache: { redis: { url: redis.url } } })
  t.match((await varve.get(modules(2000))).headers, { 'cache-status': /stored/ })
  await until(async () => (await redis.client.keys('varve:1:*')).some(key => key.includes('accounts')), 'it is shared')
  const seen = await requestEachWorker(varve, modules(2000), 3)
  t.notOk(seen.some(status => status.includes('uri-miss')), String(seen))
  t.ok(seen.some(status => status.includes('redis')))
  const purged = await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ method: 'GET', url: modules(2000) })
  })
  t.match(purged, { status: 200, body: '{"purged":true,"everywhere":true}' })
  t.match((await varve.get(modules(2000))).headers, { 'cache-status': /uri-miss/ })
  t.match(
    await sendRequest(varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: '{"all":true}'
    }),
    { status: 200 }
  )
  t.equal((await requestEachWorker(varve, modules(2000), 3)).filter(status => status.includes('uri-miss')).length, 1)
})

t.test('each worker lets in its part of the connections, whichever process has accepted them, and they are counted together', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { ...quietConfig, workers: 2, limits: { connections: 8 } })
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  t.teardown(() => {
    agent.destroy()
  })
  const { hostname, port } = new URL(varve.url)
  const silent = Array.from({ length: 40 }, () => connect(Number(port), hostname).on('error', () => {}).resume())
  t.teardown(() => {
    for (const socket of silent) socket.destroy()
  })
  const cut = async (...reasons: string[]): Promise<number> =>
    (await Promise.all(
      reasons.map(async reason => await varve.metric(`varve_connections_cut_total{reason="${reason}"}`) ?? NaN)
    )).reduce((sum, count) => sum + count)
  let most = 0
  await until(
    async () => {
      most = Math.max(most, await varve.metric('varve_connections') ?? NaN)
      return silent.every(socket => socket.destroyed)
    },
    'those that found no room are closed, the others cut off, since they say nothing',
    30_000
  )
  t.equal(most, 8)
  // One that has said nothing for a second makes room for a newcomer, where the machine takes so long to let all of
  // them in.
  t.equal(await cut('connection_limit', 'idle', 'head'), 40)
  const turnedAway = await cut('connection_limit', 'idle')
  t.ok(turnedAway > 0 && turnedAway <= 32, `${turnedAway} found no room`)
  t.match(await sendRequest(varve.url, modules(2000), { agent }), { status: 200 })
})

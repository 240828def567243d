import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { configSchema, type Config } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { portOf, startSandboxNode } from '../support/replicas.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { scrape } from '../support/scrape.js'
import { startIdleMeter, until } from '../support/until.js'
import { allPidsOf, pidsOf, quietConfig, requestEachWorker, token, varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

/** Reads all the time on kept-alive connections, as a client with a pool does; returns failures. */
function readRepeatedly (t: Test, url: string): { stop: () => Promise<{ responseCount: number, failures: string[] }> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const failures: string[] = []
  let responseCount = 0
  const over = new AbortController()
  const read = async (nth: number): Promise<void> =>
    await new Promise(resolve => {
      const sent = request(`${url}${modules(1000 + nth % 20)}`, { agent }, response => {
        if (response.statusCode !== 200) failures.push(`status ${response.statusCode}`)
        response.resume().once('end', () => {
          responseCount++
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
    for (let nth = lane; !over.signal.aborted; nth += 4) {
      await read(nth)
      // Leaves processor time to the workers that start.
      await pause(2)
    }
  }))
  const stop = async (): Promise<{ responseCount: number, failures: string[] }> => {
    over.abort()
    await readers
    agent.destroy()
    return { responseCount, failures }
  }
  t.teardown(stop)
  return { stop }
}

/** Returns the same configuration with a change. */
function changed (upstreamUrl: string, change: object): Config {
  return configSchema.parse({
    listen: '127.0.0.1:0',
    upstreams: [{ name: 'node', url: upstreamUrl }],
    head: { pollMs: 600_000 },
    ...quietConfig,
    workers: 2,
    ...change
  })
}

t.test('other keys of clients are taken by every worker, and none starts again', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, upstream.url, { ...quietConfig, workers: 2 })
  const withKey = (key: string): Config =>
    changed(upstream.url, { clients: { required: true, keys: [{ name: 'app', key }] } })
  await varve.reload(withKey('k-one'))
  const before = await allPidsOf(varve, 2)
  t.match(await varve.reload(withKey('k-two')), { changed: ['clients.keys.0.key'], needsRestart: [] })
  for (const [key, status] of [['k-one', 401], ['k-two', 200]] as const) {
    // Each connection may reach another worker.
    for (let nth = 0; nth < 8; nth++) {
      t.match(await varve.get(modules(777), { headers: { 'x-api-key': key, connection: 'close' } }), { status })
    }
  }
  t.same(await allPidsOf(varve, 2), before)
  process.kill(before[0] ?? NaN, 'SIGKILL')
  await until(async () => !(await allPidsOf(varve, 2)).includes(before[0] ?? NaN), 'another worker serves', 10_000)
  for (let nth = 0; nth < 8; nth++) {
    t.match(await varve.get(modules(777), { headers: { 'x-api-key': 'k-two', connection: 'close' } }), { status: 200 })
  }
})

/** Sends a read on a new connection; returns its outcome, `hung` after eight seconds. */
async function readOnNewConnection (url: string, target: string): Promise<string> {
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

// Shares one set of processes among these tests, because they are slow to start.
t.test('a worker pool outlives reloads, deaths and chains', async t => {
  const [first, second, other] = [
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 0, chainId: 5, seed: 7 })
  ]
  const errors: string[] = []
  const onLogLine = (line: string): unknown => errors.push(line)
  const varve = await varveAt(t, first.url, { ...quietConfig, workers: 2 }, { onLogLine })

  await t.test('a new configuration is rolled over the workers one by one, and no request is lost', async t => {
    const before = await allPidsOf(varve, 2)
    const reading = readRepeatedly(t, varve.url)
    const keys = await varve.reload(changed(second.url, { passThrough: 'none', workers: 3, head: { pollMs: 200 } }))
    const { responseCount, failures } = await reading.stop()
    t.same(failures, [])
    t.ok(responseCount > 100, `${responseCount} responses`)
    t.same(keys.needsRestart, [])
    const after = await allPidsOf(varve, 3)
    t.notOk(after.some(pid => before.includes(pid)))
    t.match(await varve.get('/v1/spec.json'), { status: 404 })
    second.requests.reset()
    t.match(await varve.get(modules(777)), { status: 200 })
    t.equal(second.requests.countFor('account_modules'), 1)
    t.equal(
      await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}') !==
        undefined,
      true,
      'counts of workers that have left are included'
    )
  })

  await t.test('one worker polls an upstream for all', async t => {
    const before = second.requests.countFor('index')
    const began = performance.now()
    await until(() => second.requests.countFor('index') >= before + 10, 'the upstream got ten requests', 10_000)
    const tookMs = performance.now() - began
    t.ok(tookMs > 1500, `ten polls took ${tookMs} ms; three polling processes would take a third of that`)
    second.ledger.grow(1)
    await until(
      async () =>
        (await Promise.all(
          [1, 2, 3].map(async () => (await varve.get(modules(2000))).headers['x-node-ledger-version'])
        ))
          .every(version => version === String(second.ledger.head.version)),
      'every worker shows the new position'
    )
  })

  await t.test('a worker that dies during a rolling reload leaves the full number, all on the new one', async t => {
    const before = await allPidsOf(varve, 3)
    const rolled = varve.reload(changed(second.url, { head: { pollMs: 200 } }))
    process.kill(before[2] ?? NaN, 'SIGKILL')
    await rolled
    t.notOk((await allPidsOf(varve, 2)).some(pid => before.includes(pid)))
    for (let nth = 0; nth < 6; nth++) t.match(await varve.get('/v1/spec.json'), { status: 200 })
    t.equal(await varve.metric('varve_workers'), 2)
  })

  await t.test('a dying worker leaves no client hanging, not even connections on their way to it', async t => {
    const lost = async (): Promise<number> => await varve.metric('varve_workers_lost_total') ?? NaN
    const before = await lost()
    const over = new AbortController()
    const ends = new Set<string>()
    const lanes = Promise.all(Array.from({ length: 24 }, async () => {
      for (let nth = 0; !over.signal.aborted; nth++) {
        ends.add(await readOnNewConnection(varve.url, modules(1000 + nth % 50)))
        // Leaves processor time to the workers that start.
        await pause(2)
      }
    }))
    for (let kill = 0; kill < 2; kill++) {
      const [killed = NaN] = await allPidsOf(varve, 2)
      process.kill(killed, 'SIGKILL')
      await until(async () => {
        const pids = await pidsOf(varve)
        return pids.length === 2 && !pids.includes(killed)
      }, 'another worker has replaced the lost one')
    }
    over.abort()
    await lanes
    t.notOk(ends.has('hung'), [...ends].join())
    t.equal(await lost() - before, 2)
  })

  await t.test('a hanging worker is replaced like a dead one, and its clients are disconnected', async t => {
    const [stuck = NaN] = await allPidsOf(varve, 2)
    process.kill(stuck, 'SIGSTOP')
    const reads = Promise.all(Array.from({ length: 10 }, async (_none, nth) =>
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
    const purged = sendRequest(varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ url: modules(2000) })
    })
    const waited = startIdleMeter()
    const { body } = await sendRequest(varve.adminUrl, '/readyz')
    t.ok(waited() < 900, 'a hanging worker does not delay /readyz')
    t.match(body, /0 of 2 workers are ready|1 of 2 workers is ready/)
    await until(async () => (await sendRequest(varve.adminUrl, '/readyz')).status === 200, 'varve is ready')
    await until(
      async () => {
        const pids = await pidsOf(varve)
        return pids.length === 2 && !pids.includes(stuck)
      },
      'another worker has replaced the lost one',
      25_000
    )
    t.equal((await reads).filter(how => how === 'answered').length >= 8, true)
    t.ok([202, 503].includes((await purged).status), 'a worker did not confirm the purge')
  })

  await t.test('workers of two configurations that give one name to two upstreams share no reports of it', async t => {
    const slow = other.faults.add({ kind: 'slow', ms: 700, match: 'index' })
    await varve.reload(changed(other.url, { head: { pollMs: 100 }, log: { level: 'error' } }))
    const chains = new Set<unknown>()
    for (let nth = 0; nth < 8; nth++) {
      const { status, headers } = await varve.get(modules(2000))
      t.equal(status, 200)
      chains.add(headers['x-node-chain-id'])
    }
    t.same([...chains], ['5'])
    await until(
      async () => /"level":"green","degraded":\[\]/.test((await sendRequest(varve.adminUrl, '/readyz')).body),
      'varve is ready at level green'
    )
    slow.remove()
  })

  await t.test('after a chain reset all workers serve the new chain alone, and none logs an error for it', async t => {
    const target = '/v1/blocks/by_version/2000'
    const before = (await varve.get(target)).body
    await requestEachWorker(varve, target)
    await until(
      async () =>
        other.requests.countFor('block_by_height') >= 2 &&
        (await scrape(varve.adminUrl)).get('varve_chain_info')?.series.length === 1,
      'both workers have proven one space'
    )
    const port = portOf(other)
    await other.close()
    t.equal((await varve.get(target)).body, before, 'cached history needs no upstream')
    const longer = await startSandboxNode(t, { prunedBlocks: 0, chainId: 5, seed: 8, blocks: 3000, port })
    const now = (await sendRequest(longer.url, target)).body
    t.not(now, before)
    await until(async () => {
      // Sent at once, since one worker may take several connections in a row.
      const bodies = await Promise.all(Array.from({ length: 8 }, async () => (await varve.get(target)).body))
      return bodies.every(body => body === now)
    }, 'every worker serves the new chain')
    for (let nth = 0; nth < 20; nth++) t.equal((await varve.get(target)).body, now)
    t.same(errors, [])
  })
})

t.test('all workers together never exceed an upstream\'s configured concurrency', async t => {
  let atOnce = 0
  let most = 0
  const upstream = await startStubUpstream(t, (_request, response) => {
    most = Math.max(most, ++atOnce)
    setTimeout(() => {
      atOnce--
      respondOk(response, '[]')
    }, 30)
  })
  const varve = await varveAt(t, upstream.url, { ...quietConfig, workers: 2, upstream: { maxConcurrent: 9 } })
  const responses = await Promise.all(
    Array.from({ length: 14 }, async (_none, nth) => await varve.get(modules(20 + nth)))
  )
  t.same(responses.map(({ status }) => status).filter(status => status !== 200), [])
  t.ok(most <= 9, `${most} at once`)
})

t.test('each worker accepts its share of the connection limit, and all are counted together', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, upstream.url, { ...quietConfig, workers: 2, limits: { connections: 8 } })
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  t.teardown(() => {
    agent.destroy()
  })
  const { hostname, port } = new URL(varve.url)
  const silent: Socket[] = []
  t.teardown(() => {
    for (const socket of silent) socket.destroy()
  })
  const openSilent = (): void => {
    silent.push(connect(Number(port), hostname).on('error', () => {}).resume())
  }
  const cut = async (...reasons: string[]): Promise<number> =>
    (await Promise.all(
      reasons.map(async reason => await varve.metric(`varve_connections_cut_total{reason="${reason}"}`) ?? NaN)
    )).reduce((sum, count) => sum + count)
  let most = 0
  const countOpen = async (): Promise<number> => {
    const open = await varve.metric('varve_connections') ?? NaN
    most = Math.max(most, open)
    return open
  }
  // The worker that wakes first may accept a whole burst, so connections come until both shares are taken.
  await until(
    async () => {
      openSilent()
      return await countOpen() === 8
    },
    'both workers have accepted their shares'
  )
  for (let more = 0; more < 32; more++) openSilent()
  await until(
    async () => {
      await countOpen()
      return silent.every(socket => socket.destroyed)
    },
    'connections over the limit are closed, the others cut off, since they say nothing',
    30_000
  )
  t.equal(most, 8)
  // Counts `idle` too: on a slow machine a connection idle for a second is evicted for a new one.
  t.equal(await cut('connection_limit', 'idle', 'head'), silent.length)
  t.ok(await cut('connection_limit', 'idle') >= 32)
  t.match(await sendRequest(varve.url, modules(2000), { agent }), { status: 200 })
})

import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { startProgram } from '../support/program.js'
import { anySpace, heartbeatsIn, portOf, startSandboxNode, untilChainKnown, untilInRedis } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { startCluster } from '../support/redis-sets.js'
import { scrape } from '../support/scrape.js'
import { startCountingUpstream } from '../support/stub-upstream.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'
import { allPidsOf, quietConfig, type TestVarve, token, varveAt } from '../support/varve.js'

const workers = 2
const modules = (account: number): string => `/v1/accounts/0x${account}/modules?ledger_version=500`
// Each host binds its own address: Node.js maps all port 0 listeners of one address in a process to one port.
let hosts = 0

/** Change for a host of one process, since workers are slow to start. */
const single = { workers: 1 }

/** Starts the workers of a host. */
async function startHost (t: Test, upstream: { url: string }, change: object = {}): Promise<TestVarve> {
  const varve = await varveAt(t, upstream.url, {
    ...quietConfig,
    listen: `127.0.0.${10 + hosts++}:0`,
    workers,
    ...change
  })
  await untilOneSpace([varve])
  return varve
}

const at = (url: string): object => ({ cache: { redis: { url, timeoutMs: 500 } } })

/** Returns the spaces that the workers of all hosts use. */
async function spacesOf (varves: ReadonlyArray<Pick<TestVarve, 'adminUrl'>>): Promise<string[]> {
  const series = await Promise.all(
    varves.map(async ({ adminUrl }) => (await scrape(adminUrl)).get('varve_chain_info')?.series ?? [])
  )
  return [...new Set(series.flat().map(({ labels }) => String(labels['space'])))]
}

async function untilOneSpace (varves: ReadonlyArray<Pick<TestVarve, 'adminUrl'>>, before?: string): Promise<string> {
  await until(async () => {
    const spaces = await spacesOf(varves)
    return spaces.length === 1 && spaces[0] !== before
  }, 'all workers use one space')
  return (await spacesOf(varves)).join()
}

async function purge ({ adminUrl }: Pick<TestVarve, 'adminUrl'>, what: object): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await sendRequest(adminUrl, '/purge', { method: 'POST', headers, body: JSON.stringify(what) })).status
}

/** Reads until each worker has responded; returns the bodies. */
async function bodiesOf (varve: TestVarve, target: string): Promise<string[]> {
  const bodies = []
  for (let nth = 0; nth < 2 * workers; nth++) bodies.push((await varve.get(target)).body)
  return bodies
}

t.test('workers agree on one space without Redis, and one that replaces a killed one joins it', async t => {
  const varve = await startHost(t, await startSandboxNode(t))
  const [space] = await spacesOf([varve])
  const [pid = NaN] = await allPidsOf(varve, workers)
  process.kill(pid, 'SIGKILL')
  await until(async () => !(await allPidsOf(varve, workers)).includes(pid), 'another worker has replaced it')
  t.same(await spacesOf([varve]), [space])
  t.equal(await purge(varve, { all: true }), 200)
  t.same([await spacesOf([varve])].flat().length, 1, 'a purge of everything begins one space for all')
  t.notSame(await spacesOf([varve]), [space])
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('without Redis purges still reach all workers, and nothing purged comes back with it', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const network = await slowRedis(t, redis)
  const varve = await startHost(t, upstream, at(network.url))
  const targets = [1, 2].map(modules)
  const old = new Set((await Promise.all(targets.map(async target => await bodiesOf(varve, target)))).flat())
  await untilInRedis(redis, `${anySpace} json *`, 2)
  network.isRejecting = true
  network.dropConnections()
  await until(async () => await varve.metric('varve_redis_up') === 0, 'Redis is known to be down')
  for (const url of targets) t.equal(await purge(varve, { url }), 202)
  const seen = (await Promise.all(targets.map(async target => await bodiesOf(varve, target)))).flat()
  network.isRejecting = false
  await until(async () => {
    seen.push((await varve.get(targets[0] ?? '')).body)
    return await varve.metric('varve_redis_up') === 1
  }, 'Redis is back')
  for (const target of targets) seen.push(...await bodiesOf(varve, target))
  t.same(seen.filter(body => old.has(body)), [], 'no worker serves a purged entry again')
  t.equal(await purge(varve, { all: true }), 200)
  await untilOneSpace([varve])
})

t.test('a limit counts across all workers while Redis is away', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const varve = await startHost(t, upstream, {
    ...at(redis.url),
    limits: { client: { requestsPerSecond: 1, burst: 20 } }
  })
  await redis.kill()
  await until(async () => await varve.metric('varve_redis_up') === 0, 'Redis is known to be down')
  const began = performance.now()
  let served = 0
  for (let nth = 0; nth < 60; nth++) if ((await varve.get(modules(nth))).status === 200) served++
  const most = 25 + (performance.now() - began) / 1000
  t.ok(served >= 20 && served < most, `${served} of at most ${most}; each worker alone would serve 20`)
})

t.test('workers of one host and another host are peers: a purge of a read or of all reaches all', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const [here, there] = [
    await startHost(t, upstream, at(redis.url)),
    await startHost(t, upstream, { ...at(redis.url), ...single })
  ]
  const space = await untilOneSpace([here, there])
  await until(async () => (await heartbeatsIn(redis)).length === 2, 'each host has one heartbeat')
  const old = (await here.get(modules(1))).body
  await untilInRedis(redis, `varve:1:${space} json *`)
  for (const varve of [here, there]) t.same([...new Set(await bodiesOf(varve, modules(1)))], [old])
  t.equal(await purge(here, { url: modules(1) }), 200)
  await until(async () => !(await bodiesOf(there, modules(1))).includes(old), 'the other host follows', 1500)
  t.notOk((await bodiesOf(here, modules(1))).includes(old))
  t.equal(await purge(there, { all: true }), 200)
  await untilOneSpace([here, there], space)
  t.equal((await heartbeatsIn(redis)).length, 2)
})

t.test('while the primary process is stopped its workers serve, and a purge waits until it holds', async t => {
  const [redis, upstream] = [await startRedis(t), await startCountingUpstream(t)]
  const file = join(t.testdir(), 'v.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      upstreams: [{ url: upstream.url }],
      ...at(redis.url),
      workers,
      limits: { client: { requestsPerSecond: 1000 } },
      admin: { token }
    })
  )
  const varve = await startProgram(t, ['--config', file])
  const space = await untilOneSpace([varve])
  // Nothing accepts a new connection while the primary process is stopped.
  const agents = Array.from({ length: 2 * workers }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  t.teardown(() => {
    for (const agent of agents) agent.destroy()
  })
  const readAll = async (target: string): Promise<string[]> =>
    await Promise.all(agents.map(async agent => {
      const { status, body } = await sendRequest(varve.url, target, { agent })
      return `${status} ${body}`
    }))
  const old = new Set(await readAll(modules(1)))
  t.ok([...old].every(response => response.startsWith('200 ')))
  const pids = await varve.pids(workers)
  varve.child.kill('SIGSTOP')
  let isPurged = false
  const purged = purge(varve, { url: modules(1) }).finally(() => {
    isPurged = true
  })
  t.ok((await readAll(modules(1))).every(response => old.has(response)), 'hits')
  t.ok((await readAll(modules(2))).every(response => response.startsWith('200 ')), 'misses')
  t.notOk(isPurged, 'nothing says that the entry is purged')
  varve.child.kill('SIGCONT')
  const status = await purged
  const served = async (): Promise<string[]> => (await readAll(modules(1))).filter(response => old.has(response))
  // On a busy machine a worker confirms too late, and applies it a moment later.
  if (status === 202) await until(async () => (await served()).length === 0, 'every worker has purged')
  else t.equal(status, 200)
  t.same(await served(), [], 'no worker serves it again')
  t.equal(await purge(varve, { all: true }), 200)
  t.not(await untilOneSpace([varve], space), space)
  t.same(await varve.pids(workers), pids, 'no worker was lost')
})

t.test('purges of workers hold while a dead master takes the whole cluster away, and after that', async t => {
  const cluster = await startCluster(t, { args: ['--cluster-require-full-coverage', 'yes'] })
  const upstream = await startCountingUpstream(t)
  const varve = await startHost(t, upstream, { cache: { redis: { cluster: cluster.hosts, timeoutMs: 500 } } })
  const targets = [1, 2, 3, 4].map(modules)
  const readAll = async (): Promise<string[]> =>
    (await Promise.all(targets.map(async target => await bodiesOf(varve, target)))).flat()
  const old = new Set(await readAll())
  const writes = 'varve_cache_writes_total{tier="redis"}'
  await until(async () => (await varve.metric(writes) ?? 0) >= targets.length, 'the entries are in Redis')
  await cluster.killNode(2)
  await until(async () => await varve.metric('varve_redis_up') === 0, 'Redis is known to be down')
  for (const url of targets) t.equal(await purge(varve, { url }), 202)
  const seen = await readAll()
  await cluster.restartNode(2)
  await until(async () => await varve.metric('varve_redis_up') === 1, 'Redis is back')
  seen.push(...await readAll())
  t.same(seen.filter(body => old.has(body)), [], 'no worker serves a purged entry again')
  await until(async () => await purge(varve, { all: true }) === 200, 'every place has a purge of everything')
  await untilOneSpace([varve])
})

t.test('after a chain reset the workers of all hosts serve the new chain, in one space', async t => {
  const [redis, upstream] = [await startRedis(t), await startSandboxNode(t, { prunedBlocks: 0 })]
  const change = { ...at(redis.url), head: { pollMs: 200 } }
  const hosts = [await startHost(t, upstream, change), await startHost(t, upstream, { ...change, ...single })]
  const target = '/v1/blocks/by_version/2000'
  const readAll = async (): Promise<string[]> =>
    (await Promise.all(hosts.map(async host => await bodiesOf(host, target)))).flat()
  const [before] = await readAll()
  const space = await untilOneSpace(hosts)
  await untilChainKnown(redis)
  const port = portOf(upstream)
  await upstream.close()
  t.ok((await readAll()).every(body => body === before), 'cached history needs no upstream')
  const longer = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port })
  const now = (await sendRequest(longer.url, target)).body
  t.not(now, before)
  await until(async () => (await readAll()).every(body => body === now), 'every worker serves the new chain')
  await untilOneSpace(hosts, space)
  t.ok((await readAll()).every(body => body === now))
  t.same(await Promise.all(hosts.map(async host => await host.metric('varve_chain_resets_total'))), [1, 1])
})

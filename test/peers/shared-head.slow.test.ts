import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { sendRequest, type TestResponse } from '../support/client.js'
import { type RunningProgram, startProgram } from '../support/program.js'
import { startSandboxNode } from '../support/replicas.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'

const history = '/v1/accounts/0x1/modules?ledger_version=500'
const latest = ['/v1', '/v1/accounts/0x1/modules', '/v1/accounts/0x1', '/v1/spec.json']

/** Starts a replica as a process. */
async function startReplica (
  t: Test,
  upstream: string,
  redis: string | undefined,
  change: object = {}
): Promise<RunningProgram> {
  const file = join(t.testdir(), 'v.yaml')
  const cache = redis === undefined ? {} : { cache: { redis: { url: redis, timeoutMs: 500 } } }
  writeFileSync(
    file,
    JSON.stringify({
      upstreams: [{ url: upstream }],
      head: { fleet: true },
      limits: { loopLagMs: null },
      latest: { infoMs: 0, indexMs: 0 },
      shutdown: { drainSeconds: 0 },
      ...cache,
      ...change
    })
  )
  return await startProgram(t, ['--config', file])
}

/** Clients that read processes in turn. No response may be older than one that came before its request. */
class Clients {
  /** Processes in turn; may change at any time. */
  urls: readonly string[]
  /** Newest head that any client has got. */
  newest = -1n
  /** Heads above this one are of another chain. */
  limit = 1n << 64n
  readonly statuses: Record<number, number> = {}
  readonly backward: string[] = []
  reads = 0
  readonly #running: Array<Promise<void>>
  #isStopped = false

  constructor (urls: readonly string[], count = 4) {
    this.urls = urls
    this.#running = Array.from({ length: count }, async (_, nth) => await this.#run(nth))
  }

  async stop (): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#running)
  }

  async #run (nth: number): Promise<void> {
    let at = nth
    while (!this.#isStopped) {
      const url = this.urls[at++ % this.urls.length] ?? ''
      const target = at % 3 === 0 ? latest[at % latest.length] ?? '' : history
      const before = this.newest
      // A connection of its own, since workers share a listener.
      const got = await sendRequest(url, target).catch(() => undefined)
      const head = got && headOf(got)
      if (got === undefined) continue
      this.reads++
      this.statuses[got.status] = (this.statuses[got.status] ?? 0) + 1
      if (head === undefined || head > this.limit) continue
      if (head < before && before <= this.limit) this.backward.push(`${head} of ${url}${target} after ${before}`)
      if (head > this.newest) this.newest = head
    }
  }
}

function headOf ({ headers }: TestResponse): bigint | undefined {
  const text = headers['x-node-ledger-version']
  return typeof text === 'string' ? BigInt(text) : undefined
}

async function readiness ({ adminUrl }: { adminUrl: string }): Promise<{ status: number, degraded: string }> {
  const { status, body } = await sendRequest(adminUrl, '/readyz')
  return { status, degraded: (JSON.parse(body) as { degraded: string[] }).degraded.join('; ') }
}

async function untilReads (clients: Clients, count: number): Promise<void> {
  const from = clients.reads
  await until(() => clients.reads >= from + count, `${count} reads`, 60_000)
}

/** Starts three replicas, of which one gets what Redis sends 20 ms later than the others. */
async function startThree (
  t: Test,
  change: object = {}
): Promise<{ redis: RedisProcess, upstream: Sandbox, replicas: RunningProgram[] }> {
  const redis = await startRedis(t)
  const network = await slowRedis(t, redis)
  network.delayMs = 20
  const upstream = await startSandboxNode(t, { blockMs: 40 })
  const replicas = []
  for (const url of [redis.url, network.url, redis.url]) {
    replicas.push(await startReplica(t, upstream.url, url, change))
  }
  return { redis, upstream, replicas }
}

/** Reads for a time, and expects that no head went back and that every response was a 200. */
async function checkReads (t: Test, clients: Clients, count: number): Promise<void> {
  await untilReads(clients, count)
  await clients.stop()
  t.same(clients.backward, [])
  t.same(Object.keys(clients.statuses), ['200'])
}

// Shares one set of processes among these tests, because they are slow to start.
t.test('the head of several replicas never goes back', async t => {
  const { redis, upstream, replicas } = await startThree(t)

  await t.test('a replica that was suspended for longer than a heartbeat is 503 until it has caught up', async t => {
    const [one, two, three] = replicas as [RunningProgram, RunningProgram, RunningProgram]
    const clients = new Clients(replicas.map(({ url }) => url))
    await untilReads(clients, 200)
    three.child.kill('SIGSTOP')
    const others = new Clients([one.url, two.url])
    await untilReads(others, 20)
    const before = others.newest
    await until(() => others.newest > before, 'the others go on without it')
    const asked = sendRequest(three.url, history)
    await untilReads(others, 200)
    clients.newest = others.newest
    three.child.kill('SIGCONT')
    const first = await asked
    t.equal(first.status, 503)
    t.equal(headOf(first), undefined)
    t.equal((await readiness(three)).status, 503)
    await until(async () => (await readiness(three)).status === 200, 'it has caught up')
    clients.statuses[503] = 0
    await untilReads(clients, 200)
    for (const { backward } of [clients, others]) t.same(backward, [])
    t.equal(clients.statuses[503], 0)
    await Promise.all([clients.stop(), others.stop()])
  })

  await t.test('without Redis replicas promise nothing and say so, and with it they promise again', async t => {
    const clients = new Clients(replicas.map(({ url }) => url))
    await untilReads(clients, 200)
    await redis.kill()
    await until(async () => {
      const all = await Promise.all(replicas.map(readiness))
      return all.every(({ status, degraded }) => status === 200 && degraded.includes('head.fleet has no effect'))
    }, 'every replica reports it')
    const from = clients.newest
    await until(() => clients.newest > from, 'heads move on')
    await redis.start()
    await until(async () => {
      return (await Promise.all(replicas.map(readiness))).every(({ degraded }) => !degraded.includes('head.fleet'))
    }, 'the promise is kept again')
    clients.backward.length = 0
    await checkReads(t, clients, 200)
  })

  await t.test('a client of several replicas never sees the head go back, also as replicas start and die', async t => {
    const clients = new Clients(replicas.map(({ url }) => url))
    await untilReads(clients, 150)
    const late = await startReplica(t, upstream.url, redis.url)
    clients.urls = [...clients.urls, late.url]
    await untilReads(clients, 150)
    clients.urls = clients.urls.slice(1)
    replicas[0]?.child.kill('SIGKILL')
    await untilReads(clients, 150)
    clients.urls = clients.urls.slice(1)
    replicas[1]?.child.kill('SIGTERM')
    await checkReads(t, clients, 150)
  })
})

t.test('the same holds while replicas follow the ledger', async t => {
  const { replicas } = await startThree(t, { follow: { mode: 'on' } })
  await checkReads(t, new Clients(replicas.map(({ url }) => url)), 300)
})

t.test('the same holds for workers without Redis, of which one is killed', async t => {
  const upstream = await startSandboxNode(t, { blockMs: 40 })
  const host = await startReplica(t, upstream.url, undefined, { workers: 3 })
  const clients = new Clients([host.url])
  await untilReads(clients, 200)
  const [pid = NaN] = await host.pids(3)
  process.kill(pid, 'SIGKILL')
  await untilReads(clients, 200)
  await clients.stop()
  t.same(clients.backward, [])
})

t.test('the same holds for workers of two hosts', async t => {
  const [redis, upstream] = [await startRedis(t), await startSandboxNode(t, { blockMs: 40 })]
  const hosts = []
  for (const _ of [1, 2]) hosts.push(await startReplica(t, upstream.url, redis.url, { workers: 2 }))
  await checkReads(t, new Clients(hosts.map(({ url }) => url)), 300)
})

t.test('a chain reset begins the promise again, whatever heads the old chain had', async t => {
  const redis = await startRedis(t)
  const old = await startSandboxNode(t, { blockMs: 40, blocks: 2000 })
  const replicas = [await startReplica(t, old.url, redis.url), await startReplica(t, old.url, redis.url)]
  const clients = new Clients(replicas.map(({ url }) => url))
  await untilReads(clients, 200)
  const most = clients.newest
  old.reset({ seed: 2, blocks: 200, prunedBlocks: 0 })
  clients.limit = most / 2n
  clients.newest = -1n
  await until(() => clients.newest > 0n, 'the new chain is served')
  await untilReads(clients, 200)
  await clients.stop()
  t.same(clients.backward, [])
})

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { cacheStatusHeader } from '../support/cache-status.js'
import { type TestResponse } from '../support/client.js'
import { startProgram } from '../support/program.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { startSandboxNode, untilAgreed, untilChainKnown } from '../support/replicas.js'
import { testFolder } from '../support/test-folder.js'
import { together } from '../support/together.js'
import { startIdleMeter, until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'

// Most of the time is waiting, so these tests run concurrently.
t.jobs = 3
const quiet = '/v1/accounts/0x1/module/coin'
const maxAgeMs = 300
const followedHit = 'varve; hit; detail=followed'
const hitBy = ({ headers }: TestResponse): string => String(headers[cacheStatusHeader])
const versionOf = ({ headers }: TestResponse): bigint => BigInt(String(headers['x-node-ledger-version']))

/** Hosts that follow one ledger and share a Redis. */
interface Fleet {
  readonly redis: RedisProcess
  readonly upstream: Sandbox
  readonly hosts: readonly TestVarve[]
  /** Requests for pages of transactions so far. */
  pages(): number
}

async function startFleet (t: Test, count: number, change: ConfigChange = {}): Promise<Fleet> {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { blocks: 1030 })
  const start = async (): Promise<TestVarve> =>
    await varveAt(t, upstream.url, {
      ...change,
      follow: { mode: 'on', maxAgeMs, verify: 0, ...change.follow },
      cache: { redis: { url: redis.url } }
    })
  const first = await start()
  await untilChainKnown(redis)
  const hosts = [first, ...await Promise.all(Array.from({ length: count - 1 }, start))]
  await untilAgreed(hosts)
  return { redis, upstream, hosts, pages: () => upstream.requests.countFor('transactions') }
}

/** Waits until each host serves a latest read at the followed head of the upstream. */
async function untilFollowing ({ hosts, upstream }: Pick<Fleet, 'hosts' | 'upstream'>): Promise<void> {
  for (const host of hosts) {
    await until(async () => {
      const response = await host.get(quiet)
      return hitBy(response) === followedHit && versionOf(response) === upstream.ledger.head.version
    }, 'the host serves a followed hit')
  }
}

async function sumOf (hosts: readonly TestVarve[], series: string): Promise<number> {
  const values = await Promise.all(hosts.map(async host => await host.metric(series) ?? 0))
  return values.reduce((sum, value) => sum + value, 0)
}

t.test('of three hosts one reads the tail, and all serve followed hits', together(), async t => {
  const fleet = await startFleet(t, 3)
  const { hosts, upstream, pages } = fleet
  await untilFollowing(fleet)
  const readings = async (): Promise<number[]> =>
    await Promise.all(hosts.map(async host => await host.metric('varve_follow_reads_total{result="ok"}') ?? 0))
  const waited = async (): Promise<number> => await sumOf(hosts, 'varve_leases_total{kind="tail",result="waited"}')
  // A reader that the machine stalls leaves the lease to another one, which each host proves, reading for itself
  // meanwhile. So the first ten blocks count in which no host but one reads.
  await until(
    async () => {
      const began = performance.now()
      const before = { pages: pages(), readings: await readings(), waited: await waited() }
      for (let nth = 0; nth < 10; nth++) {
        upstream.ledger.grow()
        await untilFollowing(fleet)
      }
      const reading = (await readings()).filter((count, at) => count > (before.readings[at] ?? 0))
      if (reading.length !== 1) return false
      // The budget of one host, and a request that was under way.
      const most = 1.5 * (performance.now() - began) / maxAgeMs + 3
      t.ok(pages() - before.pages <= most, `${pages() - before.pages} pages, of one host at most ${most}`)
      t.ok(await waited() - before.waited >= 10, 'the others took digests')
      return true
    },
    'one host reads for all',
    30_000
  )
})

t.test('a host that is killed, and one that is stopped for 5 s, delay heads by 3 s at most', together(), async t => {
  const fleet = await startFleet(t, 2)
  const { hosts, upstream, redis } = fleet
  await untilFollowing(fleet)
  const folder = await testFolder(t)
  const file = join(folder, 'varve.yaml')
  await writeFile(
    file,
    JSON.stringify({
      upstreams: [{ url: upstream.url }],
      cache: { redis: { url: redis.url } },
      follow: { mode: 'on', maxAgeMs, verify: 0 }
    })
  )
  const leader = await startProgram(t, ['--config', file])
  const reads = setInterval(() => {
    fetch(`${leader.url}${quiet}`).catch(() => {})
  }, 50)
  t.teardown(() => {
    clearInterval(reads)
  })
  const stream = (await redis.client.keys('*tail:*')).find(key => key.endsWith('}')) ?? ''
  const own = new Set((await redis.client.xrange(stream, '-', '+')).map(([, [, text = '']]) => sourceIn(text)))
  const holder = async (): Promise<string | null> => await redis.client.get(`${stream}:lease`)
  await until(async () => {
    // Takes the lease from the others, again and again without a pause, until the program has it.
    for (let nth = 0; nth < 2000; nth++) {
      const held = await holder()
      if (held !== null && !own.has(held)) return true
      if (held !== null) await redis.client.del(`${stream}:lease`)
    }
    return false
  }, 'the program reads the tail')
  for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
    leader.child.kill(signal)
    const stoppedAtMs = performance.now()
    upstream.ledger.grow()
    const idle = startIdleMeter()
    await untilFollowing(fleet)
    t.ok(idle() < 3000, `${signal}: after ${idle()} ms`)
    if (signal === 'SIGKILL') break
    const head = upstream.ledger.head.version
    await until(() => performance.now() - stoppedAtMs > 5000, 'it is stopped for 5 s')
    leader.child.kill('SIGCONT')
    upstream.ledger.grow()
    for (let nth = 0; nth < 20; nth++) {
      const responses = await Promise.all(hosts.map(async host => await host.get(quiet)))
      t.ok(responses.every(response => versionOf(response) >= head))
    }
  }
})

t.test('hosts of several workers read the tail once, and go on without Redis', together(), async t => {
  const fleet = await startFleet(t, 2, { workers: 2 })
  const { hosts, upstream, redis } = fleet
  await untilFollowing(fleet)
  const waited = async (): Promise<number> => await sumOf(hosts, 'varve_leases_total{kind="tail",result="waited"}')
  const before = await waited()
  await until(async () => {
    upstream.ledger.grow()
    await untilFollowing(fleet)
    return await waited() >= before + 5
  }, 'one host reads for the other')
  await redis.kill()
  for (let nth = 0; nth < 3; nth++) {
    upstream.ledger.grow()
    await untilFollowing(fleet)
  }
})

t.test('a reset of the chain ends what all hosts have read', together(), async t => {
  const fleet = await startFleet(t, 2)
  const { hosts, upstream } = fleet
  await untilFollowing(fleet)
  upstream.reset({ blocks: 2000 })
  for (let nth = 0; nth < 3; nth++) {
    upstream.ledger.grow()
    await untilFollowing(fleet)
  }
  for (const host of hosts) t.equal((await host.get(quiet)).status, 200)
})

t.test('hosts without traffic poll an upstream and prove its chain about as often as one', together(), async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const pollMs = 250
  const start = async (): Promise<TestVarve> =>
    await varveAt(t, upstream.url, { head: { pollMs }, cache: { redis: { url: redis.url } } })
  const first = await start()
  await untilChainKnown(redis)
  const hosts = [first, ...await Promise.all(Array.from({ length: 5 }, start))]
  await untilAgreed(hosts)
  const growth = setInterval(() => {
    upstream.ledger.grow()
  }, 50)
  t.teardown(() => {
    clearInterval(growth)
  })
  const polls = (): number => upstream.requests.countFor('index')
  const idle = startIdleMeter()
  await until(() => idle() > 2000, 'all but one have heard of heads')
  const before = polls()
  const began = performance.now()
  await until(() => polls() >= before + 20, 'they poll')
  const elapsedMs = performance.now() - began
  t.ok(elapsedMs >= 20 * pollMs / 1.6, `20 polls in ${elapsedMs} ms`)
  const proofs = (): number => upstream.requests.countFor('transaction_by_version')
  const provenBefore = proofs()
  const provedFrom = performance.now()
  await until(() => proofs() >= provenBefore + 4, 'they prove two heads', 40_000)
  // One host reads the last root and a new one each five seconds.
  const provingMs = performance.now() - provedFrom
  t.ok(provingMs >= 4000, `4 proofs in ${provingMs} ms`)
  const head = upstream.ledger.head.version
  await until(
    async () => {
      const responses = await Promise.all(hosts.map(async host => await host.get('/v1/blocks/by_version/2000')))
      return responses.every(response => versionOf(response) >= head)
    },
    'all serve a new head',
    2000
  )
})

function sourceIn (text: string): string {
  return /"source":"([^"]+)"/.exec(text)?.[1] ?? ''
}

// Measures the gain of replicas that share Redis: `npm run build && node bench/sharing.js`, or some of its parts, as in
// `node bench/sharing.js limit`. Requires redis-server on PATH; everything runs on loopback.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { giveUpOn } from '../scripts/ground.js'
import { inParallel, lineOf } from './support/timed-request.js'
import { Bench } from './support/bench.js'
import { drawsOf } from './support/random.js'
import { startOrigin } from './support/origin.js'
import { startRedis } from './support/redis.js'
import { startSandbox } from './support/sandbox.js'
import { timesOf } from './support/statistics.js'
import { lookForTools } from './support/tools.js'
import { startVarve } from './support/varve.js'

const reads = 20_000
const distinct = 2_000
const atOnce = 16
const newReads = 100
// Leaves processes unpinned, so that several replicas can use all cores.
const bench = new Bench({}, await lookForTools(), undefined)
if (bench.tools.paths['redis-server'] === undefined) {
  giveUpOn('a redis-server is needed on PATH; the Debian package redis-server provides it')
}

const redis = await startRedis(bench)
const node = await startSandbox(bench)
const parts = { gain, same: atTheSameTime, own: ownRequests, limit: atOneLimit, cost, space }
for (const part of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)) await parts[part]()
process.exit()

/** Prints client reads per upstream read for one, two and four replicas behind round robin. */
async function gain () {
  const trace = traceOf(1)
  console.log(
    `${trace.length} reads of ${
      new Set(trace).size
    } request variants, skewed, round-robin over the replicas; client reads per upstream read:\n`
  )
  console.log('| replicas | without Redis | with Redis |\n|---|---|---|')
  for (const count of [1, 2, 4]) {
    const figures = []
    for (const shared of [false, true]) {
      await redis.client.flushall()
      const replicas = await Promise.all(Array.from({ length: count }, async () => await startReplica(shared)))
      await inParallel(trace, atOnce, async (target, at) => {
        await get(replicas[at % count], target)
      })
      const asked = (await Promise.all(replicas.map(nodeReads))).reduce((a, b) => a + b)
      figures.push(`${(trace.length / asked).toFixed(2)} (${asked} upstream reads)`)
      await Promise.all(replicas.map(replica => replica.stop()))
    }
    console.log(`| ${count} | ${figures.join(' | ')} |`)
  }
}

/** Prints the upstream reads of a new read that every replica gets at the same moment. */
async function atTheSameTime () {
  const origin = await startOrigin(bench)
  const counts = [1, 3, 6, 12]
  console.log('\n| upstream responds in | ' + counts.map(count => `${count} replicas`).join(' | ') + ' |')
  console.log('|---|' + '---|'.repeat(counts.length))
  for (const delayMs of [20, 200]) {
    await origin.delay(delayMs)
    const figures = []
    for (const count of counts) {
      await redis.client.flushall()
      const replicas = await Promise.all(
        Array.from(
          { length: count },
          async () => await startVarve(bench, origin.url, { flags: ['--redis', redis.url] })
        )
      )
      const readAll = async version =>
        await Promise.all(
          replicas.map(replica => get(replica, `/v1/accounts/0x200/modules?ledger_version=${version}`))
        )
      // Their own polls are not delayed, so the upstream looks near until they have read from it.
      for (let nth = 0; nth < 10; nth++) await readAll(1000 + nth)
      const before = (await Promise.all(replicas.map(nodeReads))).reduce((a, b) => a + b)
      for (let nth = 0; nth < newReads; nth++) await readAll(2000 + nth)
      const asked = (await Promise.all(replicas.map(nodeReads))).reduce((a, b) => a + b) - before
      figures.push((asked / newReads).toFixed(2))
      await Promise.all(replicas.map(replica => replica.stop()))
    }
    console.log(`| ${delayMs} ms | ${figures.join(' | ')} |`)
  }
}

/** Prints the requests that following replicas send by themselves. */
async function ownRequests () {
  const growing = await startSandbox(bench, 250)
  const counts = [1, 3, 6, 12]
  console.log('\nrequests per second that replicas send by themselves, while each gets latest reads:\n')
  console.log('| | ' + counts.map(count => `${count} replicas`).join(' | ') + ' |')
  console.log('|---|' + '---|'.repeat(counts.length))
  const endpoints = {
    'pages of the ledger': ['transactions'],
    polls: ['index'],
    'proofs of the chain and of the reader': ['transaction_by_version', 'block_by_height']
  }
  const lines = Object.fromEntries(Object.keys(endpoints).map(kind => [kind, []]))
  const sent = async kind => {
    const requests = await growing.requests()
    return requests.reduce((sum, [endpoint, count]) => endpoints[kind].includes(endpoint) ? sum + count : sum, 0)
  }
  const sentOfAll = async () => await Promise.all(Object.keys(endpoints).map(sent))
  for (const count of counts) {
    await redis.client.flushall()
    const folder = await mkdtemp(join(tmpdir(), 'sharing-'))
    const file = join(folder, 'varve.json')
    await writeFile(file, JSON.stringify({ follow: { mode: 'on' } }))
    const replicas = await Promise.all(
      Array.from(
        { length: count },
        async () => await startVarve(bench, growing.url, { flags: ['--config', file, '--redis', redis.url] })
      )
    )
    const readFor = async seconds => {
      for (let nth = 0; nth < 10 * seconds; nth++) {
        await Promise.all([
          ...replicas.map(replica => get(replica, '/v1/accounts/0x1/module/coin')),
          new Promise(resolve => {
            setTimeout(resolve, 100)
          })
        ])
      }
    }
    await readFor(5)
    const before = await sentOfAll()
    const beganMs = performance.now()
    // Long enough for what a replica sends each 30 s.
    await readFor(30)
    const seconds = (performance.now() - beganMs) / 1000
    const after = await sentOfAll()
    Object.keys(endpoints).forEach((kind, index) => lines[kind].push((after[index] - before[index]) / seconds))
    await Promise.all(replicas.map(replica => replica.stop()))
    await rm(folder, { recursive: true })
  }
  for (const [name, figures] of Object.entries(lines)) {
    console.log(`| ${name} | ${figures.map(each => each.toFixed(2)).join(' | ')} |`)
  }
}

/** Prints the requests that replicas with one `requestsPerSecond` send while each gets more reads than that. */
async function atOneLimit () {
  const perSecond = 50
  const counts = [1, 3, 6, 12]
  console.log(`\nrequests per second with requestsPerSecond: ${perSecond}:\n`)
  console.log('| replicas | on average | most in a second |\n|---|---|---|')
  for (const count of counts) {
    await redis.client.flushall()
    const folder = await mkdtemp(join(tmpdir(), 'sharing-'))
    const file = join(folder, 'varve.json')
    const upstreams = [{ url: node.url, requestsPerSecond: perSecond, timeoutMs: 60_000 }]
    await writeFile(file, JSON.stringify({ upstreams }))
    const replicas = await Promise.all(
      Array.from(
        { length: count },
        async () => await startVarve(bench, undefined, { flags: ['--config', file, '--redis', redis.url] })
      )
    )
    const sent = async () => Object.fromEntries(await node.requests()).total
    let version = 1000
    const endMs = performance.now() + 10_000
    const reading = replicas.flatMap(replica =>
      Array.from({ length: 8 }, async () => {
        while (performance.now() < endMs) {
          await get(replica, `/v1/accounts/0x1/modules?ledger_version=${version++}&limit=1`)
        }
      })
    )
    const samples = []
    while (performance.now() < endMs) {
      const fromMs = performance.now()
      samples.push({ fromMs, count: await sent(), toMs: performance.now() })
      await new Promise(resolve => {
        setTimeout(resolve, 20)
      })
    }
    await Promise.all(reading)
    const [first, last] = [samples[0], samples.at(-1)]
    const most = Math.max(...samples.map(sample => {
      const end = samples.findLast(({ toMs }) => toMs <= sample.fromMs + 1000) ?? sample
      return end.count - sample.count
    }))
    console.log(
      `| ${count} | ${((last.count - first.count) / (last.toMs - first.fromMs) * 1000).toFixed(1)} | ${most} |`
    )
    await Promise.all(replicas.map(replica => replica.stop()))
    await rm(folder, { recursive: true })
  }
}

/** Prints the latency of sequential reads: from memory, from Redis, through a miss, and directly. */
async function cost () {
  await redis.client.flushall()
  const [first, second] = await Promise.all([startReplica(true), startReplica(true)])
  const targets = [...new Set(traceOf(2))].filter(target => target.includes('/modules')).slice(0, 1_000)
  const times = { 'direct from the upstream': [], 'a miss': [], 'a Redis hit': [], 'a memory hit': [] }
  for (const target of targets) {
    times['direct from the upstream'].push((await get(node, target)).ms)
    times['a miss'].push(timeOf(await get(first, target), 'fwd=uri-miss'))
    while (!await isShared(target)) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
    }
    times['a Redis hit'].push(timeOf(await get(second, target), 'detail=redis'))
    times['a memory hit'].push(timeOf(await get(second, target), 'detail=memory'))
  }
  console.log(`\n${targets.length} reads, one at a time:\n\n| | median ms | p99 ms |\n|---|---|---|`)
  for (const [name, list] of Object.entries(times)) {
    const { median, p99 } = timesOf(list)
    console.log(`| ${name} | ${median.toFixed(2)} | ${p99.toFixed(2)} |`)
  }
}

/** Prints the Redis memory of an entry beyond its body, block index included. */
async function space () {
  console.log('\n| | entries | bytes in Redis per entry, beyond the body |\n|---|---|---|')
  for (const kind of ['modules', 'blocks']) {
    await redis.client.flushall()
    const varve = await startReplica(true)
    const targets = [...new Set(traceOf(3))].filter(target => target.includes(kind)).slice(0, 1_000)
    const bodies = new Map()
    for (const target of targets) {
      const answer = await get(varve, target)
      if (lineOf(answer, 'cache-status').includes('stored')) bodies.set(target, answer.body.length)
    }
    await varve.stop()
    const bytes = [...bodies.values()].reduce((a, b) => a + b)
    console.log(`| ${kind} | ${bodies.size} | ${Math.round((await usedByEntries() - bytes) / bodies.size)} |`)
  }
}

function timeOf (answer, expected) {
  const status = lineOf(answer, 'cache-status')
  if (!status?.includes(expected)) throw new Error(`expected ${expected}, got ${status}`)
  return answer.ms
}

/** Generates reads of module pages and blocks; newer versions are more likely. */
function traceOf (seed) {
  const draw = drawsOf(seed)
  return Array.from({ length: reads }, () => {
    const rank = Math.floor(distinct * draw() ** 3)
    const version = 18_000 - rank * 7
    return rank % 4 === 0
      ? `/v1/blocks/by_version/${version}`
      : `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
  })
}

async function startReplica (shared) {
  return await startVarve(bench, node.url, { flags: shared ? ['--redis', redis.url] : [] })
}

async function get (peer, target) {
  const answer = await peer.ask({ path: target })
  if (answer.status !== 200) throw new Error(`${answer.status} for ${target}`)
  return answer
}

async function nodeReads (varve) {
  const metrics = await varve.metrics()
  return metrics.sum('varve_upstream_requests_total') - metrics.sum('varve_upstream_requests_total', 'endpoint="other"')
}

async function isShared (target) {
  return (await redis.client.keys(`*${target.replace('0x1', '0x*1').replace('?', '\\?')}`)).length > 0
}

async function usedByEntries () {
  const keys = await redis.client.keys('varve:1:4.*')
  return (await Promise.all(keys.map(async key => await redis.client.memory('USAGE', key)))).reduce((a, b) => a + b, 0)
}

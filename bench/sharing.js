// What replicas gain by sharing through Redis, on one trace, and what a hit there costs beside one in memory and a read of the node.
// `npm run build && node bench/sharing.js`; a redis-server must be on PATH. Everything runs on loopback and ends with it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'

const reads = 20_000
const distinct = 2_000
const atOnce = 16
const cli = new URL('../dist/cli.js', import.meta.url).pathname
const agent = new Agent({ keepAlive: true, maxSockets: 64 })
const children = new Set()

try {
  const redis = await startRedis()
  const node = await startNode()
  await gain(redis, node)
  await cost(redis, node)
  await space(redis, node)
} finally {
  agent.destroy()
  for (const child of children) child.kill('SIGKILL')
}

/** Reads served for each read of the node, with one replica, two and four behind a balancer that takes turns. */
async function gain (redis, node) {
  const trace = traceOf(1)
  console.log(`${trace.length} reads of ${new Set(trace).size} spellings, skewed, dealt to the replicas in turn; reads served for each read of the node:\n`)
  console.log('| replicas | without Redis | with Redis |\n|---|---|---|')
  for (const count of [1, 2, 4]) {
    const figures = []
    for (const shared of [false, true]) {
      await redis.flush()
      const replicas = await Promise.all(Array.from({ length: count }, async () => await startVarve(node, shared ? redis.url : undefined)))
      await inParallel(trace, async (target, at) => { await get(replicas[at % count].url + target) })
      const asked = (await Promise.all(replicas.map(nodeReads))).reduce((a, b) => a + b)
      figures.push(`${(trace.length / asked).toFixed(2)} (${asked} node reads)`)
      await Promise.all(replicas.map(replica => replica.stop()))
    }
    console.log(`| ${count} | ${figures.join(' | ')} |`)
  }
}

/** The time of one read after another: from memory, from Redis, and of the node through varve and straight. */
async function cost (redis, node) {
  await redis.flush()
  const [first, second] = await Promise.all([startVarve(node, redis.url), startVarve(node, redis.url)])
  const targets = [...new Set(traceOf(2))].filter(target => target.includes('/modules')).slice(0, 1_000)
  const times = { 'straight from the node': [], 'a miss': [], 'a Redis hit': [], 'a memory hit': [] }
  for (const target of targets) {
    times['straight from the node'].push((await get(node.url + target)).ms)
    times['a miss'].push(timeOf(await get(first.url + target), 'fwd=uri-miss'))
    while (!await redis.has(target)) await new Promise(resolve => { setImmediate(resolve) })
    times['a Redis hit'].push(timeOf(await get(second.url + target), 'detail=redis'))
    times['a memory hit'].push(timeOf(await get(second.url + target), 'detail=memory'))
  }
  console.log(`\n${targets.length} reads, one at a time:\n\n| | median ms | p99 ms |\n|---|---|---|`)
  for (const [name, list] of Object.entries(times)) {
    const sorted = list.sort((a, b) => a - b)
    console.log(`| ${name} | ${sorted[sorted.length >> 1].toFixed(2)} | ${sorted[Math.floor(sorted.length * 0.99)].toFixed(2)} |`)
  }
}

/** What an entry takes in Redis beyond its body, the index of blocks included. */
async function space (redis, node) {
  console.log('\n| | entries | bytes in Redis for each, beyond the body |\n|---|---|---|')
  for (const kind of ['modules', 'blocks']) {
    await redis.flush()
    const varve = await startVarve(node, redis.url)
    const targets = [...new Set(traceOf(3))].filter(target => target.includes(kind)).slice(0, 1_000)
    const bodies = new Map()
    for (const target of targets) {
      const { body, status } = await get(varve.url + target)
      if (status.includes('stored')) bodies.set(target, body.length)
    }
    await varve.stop()
    const bytes = [...bodies.values()].reduce((a, b) => a + b)
    console.log(`| ${kind} | ${bodies.size} | ${Math.round((await redis.used() - bytes) / bodies.size)} |`)
  }
}

function timeOf ({ ms, status }, expected) {
  if (!status?.includes(expected)) throw new Error(`expected ${expected}, got ${status}`)
  return ms
}

/** Module pages and blocks at versions that clients come back to: the likelier, the newer. */
function traceOf (seed) {
  let state = seed
  const draw = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  return Array.from({ length: reads }, () => {
    const rank = Math.floor(distinct * draw() ** 3)
    const version = 18_000 - rank * 7
    return rank % 4 === 0 ? `/v1/blocks/by_version/${version}` : `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
  })
}

async function inParallel (items, work) {
  let next = 0
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < items.length) {
      const at = next++
      await work(items[at], at)
    }
  }))
}

async function get (url) {
  const started = performance.now()
  const asked = request(url, { agent })
  asked.end()
  const [response] = await once(asked, 'response')
  let body = ''
  for await (const chunk of response.setEncoding('latin1')) body += chunk
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} for ${url}`)
  return { ms: performance.now() - started, status: response.headers['cache-status'], body }
}

async function nodeReads ({ adminUrl }) {
  const { body } = await get(`${adminUrl}/metrics`)
  return body.split('\n').filter(line => line.startsWith('varve_upstream_requests_total{') && !line.includes('endpoint="other"'))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

async function startNode () {
  const { said } = await start([cli, 'sandbox', '--listen', '127.0.0.1:0', '--block-ms', '0'], line => /(http:\/\/\S+)/.exec(line)?.[1])
  return { url: said.replace(/\/v1\/?$/, '') }
}

async function startVarve (node, redisUrl) {
  const args = [cli, 'serve', '--upstream', node.url, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', ...(redisUrl === undefined ? [] : ['--redis', redisUrl])]
  const { said, child } = await start(args, line => line.includes('"listening"') ? JSON.parse(line) : undefined)
  while (!(await fetch(`${said.adminUrl}/readyz`)).ok) await new Promise(resolve => { setTimeout(resolve, 10) })
  return {
    ...said,
    async stop () {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    }
  }
}

async function startRedis () {
  const port = await freePort()
  await start(['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--maxmemory', '256mb', '--maxmemory-policy', 'allkeys-lru'],
    line => line.includes('eady to accept connections') || undefined, 'redis-server')
  const { Redis } = await import('ioredis')
  const client = new Redis(port)
  const child = { kill: () => { client.disconnect() } }
  children.add(child)
  return {
    url: `redis://127.0.0.1:${port}`,
    flush: async () => await client.flushall(),
    used: async () => {
      const keys = await client.keys('varve:1:4.*')
      return (await Promise.all(keys.map(async key => await client.memory('USAGE', key)))).reduce((a, b) => a + b, 0)
    },
    has: async target => (await client.keys(`*${target.replace('0x1', '0x*1').replace('?', '\\?')}`)).length > 0
  }
}

/** Starts a program and waits for the line that tells what is wanted. */
async function start (args, wanted, program = process.execPath) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.add(child)
  for await (const line of createInterface(child.stdout)) {
    const said = wanted(line)
    if (said === undefined) continue
    child.stdout.resume()
    return { said, child }
  }
  throw new Error(`${program} ended before it was ready`)
}

async function freePort () {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

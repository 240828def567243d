import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { type MemoryCgroup, makeMemoryCgroup, memoryNeededMb } from '../support/memory.js'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { seriesOf, sumOfSeries } from '../support/soak/process-snapshot.js'
import { startVarveProcess, type VarveProcess } from '../support/soak/varve-process.js'
import { stamps } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const mega = 1024 * 1024
const bodyBytes = 7 * mega
const cache = { memory: { maxMb: 128 } }
// The inspector that the process is started with takes some memory of its own.
const inspectorMb = 20
const limitMb = memoryNeededMb(configSchema.parse({ cache })) + inspectorMb

const large = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const small = '/v1/accounts/0x5/modules?ledger_version=500'

// Serves 7 MB to every read but that of 0x5, in a process of its own.
const upstreamProgram = `
const body = Buffer.alloc(${bodyBytes}, 'x')
const stamps = ${JSON.stringify(stamps())}
const server = require('node:http').createServer((request, response) => {
  const headers = { 'content-type': 'application/json', ...stamps }
  if (request.url === '/v1') return response.writeHead(200, headers).end('{"git_hash":"aaaa"}')
  if (request.url.startsWith('/v1/blocks/')) return response.writeHead(404).end()
  if (/0x0*5\\//.test(request.url)) return response.writeHead(200, headers).end('[]')
  response.writeHead(200, { ...headers, 'content-length': String(body.length) }).end(body)
}).listen(0, '127.0.0.1', () => process.stdout.write(String(server.address().port) + '\\n'))
`

async function startLargeUpstream (t: Test): Promise<string> {
  const child = spawn(process.execPath, ['-e', upstreamProgram], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const [port] = await once(child.stdout, 'data') as [Buffer]
  return `http://127.0.0.1:${port.toString().trim()}`
}

interface Limited {
  readonly varve: VarveProcess
  readonly cgroup: MemoryCgroup | undefined
}

/** Starts varve in a memory cgroup as large as the formula of docs says, where one can be made. */
async function startLimited (t: Test, env: Record<string, string> = {}): Promise<Limited> {
  const cgroup = makeMemoryCgroup(t, limitMb)
  const varve = await startVarveProcess(t, {
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    upstreams: [{ name: 'node', url: await startLargeUpstream(t), timeoutMs: 60_000 }],
    audit: { share: 0 },
    limits: { loopLagMs: null },
    cache
  }, { cgroupFile: cgroup?.processesFile, env })
  for (let round = 0; round < 3; round++) await sendRequest(varve.url, small)
  return { varve, cgroup }
}

function residentMb ({ pid }: VarveProcess): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}

/** Samples the resident memory while `work` runs. */
async function mostWhile (varve: VarveProcess, work: Promise<unknown>): Promise<number> {
  let most = 0
  const timer = setInterval(() => {
    most = Math.max(most, residentMb(varve))
  }, 20)
  await work
  clearInterval(timer)
  return most
}

/** Opens connections that send a read of their own and read nothing, from one loopback address each ten. */
async function slowReaders (t: Test, url: string, count: number, first: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  return await Promise.all(Array.from({ length: count }, async (_, nth) => {
    const localAddress = `127.0.1.${1 + Math.floor(nth / 10)}`
    const socket = connect({ host: hostname, port: Number(port), localAddress }).on('error', () => {}).pause()
    t.teardown(() => {
      socket.destroy()
    })
    await once(socket, 'connect')
    socket.write(`GET ${large(first + nth)} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return socket
  }))
}

const skip = existsSync('/proc/self/status') ? false : 'memory is measured as Linux shows it'

/** Latencies that a client of its own has met. */
interface Hits {
  readonly hits: number
  readonly others: string[]
  readonly medianMs: number
  readonly p95Ms: number
  readonly slowestMs: number
}

// Reads one hit after another in a process of its own, since the test's event loop is busy with large responses.
const readerProgram = `
const { Agent, get } = require('node:http')
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
const url = process.argv[1]
const times = [], others = []
let isOver = false
process.stdin.on('end', () => { isOver = true }).resume()
const read = () => new Promise(resolve => {
  const began = performance.now()
  get(url, { agent, localAddress: '127.0.0.9' }, response => {
    const { statusCode, headers } = response.on('end', () => {
      if (statusCode === 200 && String(headers['cache-status']).includes('hit')) times.push(performance.now() - began)
      else others.push(statusCode + ' ' + headers['cache-status'])
      resolve()
    }).resume()
  }).on('error', error => { others.push(error.message); resolve() })
})
;(async () => {
  await read()
  process.stdout.write('\\n')
  while (!isOver) {
    await read()
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  times.sort((a, b) => a - b)
  const at = share => times[Math.floor((times.length - 1) * share)]
  process.stdout.write(JSON.stringify({ hits: times.length, others, medianMs: at(0.5), p95Ms: at(0.95), slowestMs: at(1) }))
  agent.destroy()
})()
`

/** Lets another client read one hit after another until `work` is over. */
async function hitsWhile (t: Test, { url }: VarveProcess, work: () => Promise<unknown>): Promise<Hits> {
  const child = spawn(process.execPath, ['-e', readerProgram, `${url}${small}`], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  await once(child.stdout, 'data')
  await work()
  child.stdin.end()
  return JSON.parse(String(await buffer(child.stdout))) as Hits
}

// Leaves out the slowest hits: on a busy machine the process itself waits for a processor.
function checkHits (t: Test, { hits, others, medianMs, p95Ms }: Hits): void {
  t.ok(hits > 10, `${hits} hits`)
  t.same(others, [], 'every read of it is a hit')
  t.ok(medianMs < 250 && p95Ms < 1000, `the median of hits took ${medianMs} ms, 19 of 20 took up to ${p95Ms} ms`)
}

t.test('120 misses of 7 MB at once stay within the memory that docs promise', { skip, timeout: 180_000 }, async t => {
  const { varve, cgroup } = await startLimited(t)
  const before = residentMb(varve)
  const responses: string[] = []
  const misses = async (): Promise<unknown> =>
    await Promise.all(Array.from({ length: 120 }, async (_, nth) => {
      const { status, headers, bytes } = await sendRequest(varve.url, large(100 + nth))
      responses.push(`${status} ${status === 200 ? bytes.length : headers['retry-after']} ${headers['cache-status']}`)
    }))
  let most = 0
  const hits = await hitsWhile(t, varve, async () => {
    most = await mostWhile(varve, misses())
  })
  checkHits(t, hits)
  t.notOk(varve.hasEnded, 'the kernel has not ended it')
  const whole = responses.filter(text => text.startsWith(`200 ${bodyBytes} `))
  t.equal(whole.length, 120, 'each is whole')
  t.ok(responses.some(text => text.includes('detail=over_budget')), 'some are streamed')
  t.ok(most < limitMb, `${Math.round(most)} of ${limitMb} MB`)
  await until(async () => sumOfSeries(await seriesOf(varve), 'varve_in_flight_bytes') === 0, 'no byte is in flight')
  t.comment(
    `${Math.round(before)} MB before, ${Math.round(most)} MB at most, ${Math.round(residentMb(varve))} MB after; ` +
      `${responses.filter(text => text.endsWith('stored')).length} stored; ${JSON.stringify(hits)}; ` +
      (cgroup === undefined ? 'no cgroup' : `cgroup ${Math.round(cgroup.maxMb())} of ${limitMb} MB`)
  )
})

t.test('150 slow readers of 7 MB each: hits go on, and memory stays within what docs promise', {
  skip,
  timeout: 180_000
}, async t => {
  const { varve, cgroup } = await startLimited(t)
  let most = 0
  const reading = async (): Promise<void> => {
    await slowReaders(t, varve.url, 150, 1)
    await until(
      async () => sumOfSeries(await seriesOf(varve), 'varve_connections_cut_total', 'memory') > 0,
      'a slow reader is cut off',
      40_000
    )
  }
  const hits = await hitsWhile(t, varve, async () => {
    most = await mostWhile(varve, reading())
  })
  checkHits(t, hits)
  t.notOk(varve.hasEnded, 'the kernel has not ended it')
  const series = await seriesOf(varve)
  t.ok(most < limitMb, `${Math.round(most)} of ${limitMb} MB`)
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), { ready: true, level: /amber|red/ })
  t.comment(
    `${Math.round(most)} MB at most; ${JSON.stringify(hits)}; ` +
      `${series.get('varve_connections_cut_total{reason="memory"}')} cut; ` +
      `${sumOfSeries(series, 'varve_in_flight_rejected_total')} rejected; ` +
      `${sumOfSeries(series, 'varve_in_flight_bytes') / mega} MB in flight; ` +
      (cgroup === undefined ? 'no cgroup' : `cgroup ${Math.round(cgroup.maxMb())} of ${limitMb} MB`)
  )
})

const jemalloc = readdirSync('/usr/lib', { withFileTypes: true }).filter(entry => entry.isDirectory())
  .map(({ name }) => `/usr/lib/${name}/libjemalloc.so.2`).find(file => existsSync(file))

t.test('with the allocator of the image, memory returns after the misses', {
  skip: skip === false && jemalloc === undefined ? 'libjemalloc2 is not installed' : skip,
  timeout: 180_000
}, async t => {
  const { varve } = await startLimited(t, { LD_PRELOAD: jemalloc ?? '' })
  for (let round = 0; round < 3; round++) {
    await Promise.all(
      Array.from({ length: 60 }, async (_, nth) => await sendRequest(varve.url, large(100 + round * 60 + nth)))
    )
  }
  await until(() => residentMb(varve) < limitMb - inspectorMb, 'memory is below the limit again', 20_000)
  t.comment(`${Math.round(residentMb(varve))} MB after`)
})

import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { maxDescriptorsOfProcess } from '../../src/app/listen.js'
import { sendRequest } from '../support/client.js'
import {
  PersistentClient,
  isCacheHit,
  openConnections,
  readContinuously
} from '../support/overload/persistent-clients.js'
import { slowBehaviours } from '../support/overload/slow-behaviours.js'
import { startSandboxNode } from '../support/replicas.js'
import { seriesOf, sumOfSeries } from '../support/soak/process-snapshot.js'
import { type StartOptions, type VarveProcess, startVarveProcess } from '../support/soak/varve-process.js'
import { until } from '../support/until.js'

const idleCount = 5000
const busyCount = 200
const slowCount = 300
const goneMs = 10_000
// Counts the test's own descriptors and about as many of varve.
const neededDescriptors = idleCount + busyCount + slowCount + 1000

const read = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const hot = Array.from({ length: 20 }, (_, at) => read(15_000 + at))
// Height of a block of some megabytes.
const largeHeight = 900

/** Starts a varve process in front of the embedded node, with a warm cache. */
async function warmProgram (
  t: Test,
  limits: object,
  beginning: StartOptions = {}
): Promise<{ program: VarveProcess, large: string }> {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const program = await startVarveProcess(t, {
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    upstreams: [{ name: 'node', url: sandbox.url }],
    audit: { share: 0 },
    ...limits
  }, beginning)
  const large = `/v1/blocks/by_version/${sandbox.ledger.block(largeHeight).firstVersion}?with_transactions=true`
  for (const target of [...hot, large]) for (let round = 0; round < 3; round++) await sendRequest(program.url, target)
  return { program, large }
}

function residentMb ({ pid }: VarveProcess): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}

const isLinux = process.platform === 'linux'
const skip = !isLinux
  ? 'memory and descriptors are looked at as Linux shows them'
  : maxDescriptorsOfProcess() < neededDescriptors
  ? `this needs ${neededDescriptors} descriptors`
  : false

t.test('of 5,500 clients slow senders are cut off in ten seconds, and slow readers do no harm', {
  skip,
  timeout: 180_000
}, async t => {
  const { program, large } = await warmProgram(t, { limits: { loopLagMs: null } })
  const before = residentMb(program)
  const idle = (await openConnections(t, program.url, idleCount)).map(socket => new PersistentClient(socket))
  for (let at = 0; at < idle.length; at += 500) {
    await Promise.all(
      idle.slice(at, at + 500).map(async (client, nth) => {
        if (!isCacheHit(await client.get(hot[nth % hot.length] ?? ''))) {
          t.fail('an idle client\'s first read was no hit')
        }
      })
    )
  }
  const withIdle = residentMb(program)
  const over = new AbortController()
  const busy = (await openConnections(t, program.url, busyCount)).map(socket => new PersistentClient(socket))
  const reading = readContinuously(busy, hot, over.signal)
  const misses: string[] = []
  const missing = (async () => {
    for (let version = 3000; !over.signal.aborted; version++) {
      const { status, headers } = await sendRequest(program.url, read(version))
      misses.push(`${status} ${String(headers['cache-status']).includes('fwd=uri-miss')}`)
      await pause(20)
    }
  })()

  const manners = slowBehaviours(large)
  const slow = await openConnections(t, program.url, slowCount)
  const connections = async (): Promise<number> => sumOfSeries(await seriesOf(program), 'varve_connections')
  await until(async () => await connections() >= idleCount + busyCount + slowCount, 'the connections are accepted')
  const began = performance.now()
  slow.forEach((socket, at) => manners[at % manners.length]?.begin(socket))
  const drip = setInterval(() => {
    slow.forEach((socket, at) => {
      if (!socket.destroyed) manners[at % manners.length]?.continue(socket)
    })
  }, 500)
  t.teardown(() => clearInterval(drip))
  let most = 0
  const readers = slow.filter((_, at) => manners[at % manners.length]?.isSlowReader === true).length
  // Tolerates one connection more, for a read that misses.
  await until(
    async () => {
      most = Math.max(most, residentMb(program))
      return await connections() <= idleCount + busyCount + readers + 1
    },
    'the connections that send slowly are closed',
    30_000
  )
  const tookMs = performance.now() - began
  clearInterval(drip)

  const again: string[] = []
  for (let at = 0; at < idle.length; at += 250) {
    again.push(
      ...await Promise.all(
        idle.slice(at, at + 250).map(async (client, nth) => await client.get(hot[nth % hot.length] ?? ''))
      )
    )
  }
  t.equal(again.filter(isCacheHit).length, idleCount, 'each idle client is still connected and served')
  over.abort()
  await missing
  const { latenciesMs: times, nonHits } = await reading
  times.sort((a, b) => a - b)
  // Subtracts the queueing time: the question whether they are gone waited in the same queue.
  t.ok(tookMs - (times.at(-1) ?? 0) < goneMs, `they were gone after ${Math.round(tookMs)} ms`)
  const p99 = times[Math.floor(times.length * 0.99)] ?? 0
  const series = await seriesOf(program)
  const cut = (reason: string): number => series.get(`varve_connections_cut_total{reason="${reason}"}`) ?? -1
  t.same(nonHits, [], 'each read of a busy client was a hit')
  t.ok(times.length > 5000)
  t.ok(p99 < 3000, `p99 of ${p99} ms`)
  t.ok(
    misses.length > 20 && misses.every(miss => miss === '200 true'),
    misses.find(miss => miss !== '200 true') ?? `${misses.length} misses`
  )
  t.equal(cut('idle') + cut('connection_limit'), 0, 'no connection was rejected')
  t.ok(cut('head') > 0 && cut('body') > 0)
  t.equal(cut('stalled') + cut('memory'), 0, 'slow readers have 120 s, and share one copy in memory')
  t.ok(withIdle - before < 250, `${withIdle - before} MB for ${idleCount} idle connections`)
  t.ok(most - withIdle < 300, `${most - withIdle} MB more with the slow clients`)
  t.same(program.errors, [])
})

t.test(
  'while the event loop is late, misses get 503 and hits are served; then misses work again',
  { timeout: 90_000 },
  async t => {
    // Blocks the event loop for 250 of each 300 ms after a signal, as a flood would.
    const busy = `
    let timer
    const block = () => { const end = performance.now() + 250; while (performance.now() < end); }
    process.on('SIGUSR2', () => { timer = timer === undefined ? setInterval(block, 50) : clearInterval(timer) })
  `
    const { program } = await warmProgram(t, {}, {
      flags: ['--import', `data:text/javascript,${encodeURIComponent(busy)}`]
    })
    t.equal(sumOfSeries(await seriesOf(program), 'varve_shed_total'), 0)
    let version = 3000
    const miss = async (target = read(version++)): Promise<Awaited<ReturnType<typeof sendRequest>>> =>
      await sendRequest(program.url, target)
    t.equal((await miss()).status, 200)
    process.kill(program.pid, 'SIGUSR2')
    await until(async () => (await miss()).status === 503, 'misses are rejected', 20_000)
    for (const target of [read(version++), '/v1/accounts/0x1/modules', '/v1/spec.json']) {
      const got = await miss(target)
      t.match(got, { status: 503, headers: { 'retry-after': '1' }, body: /"error_code":"internal_error"/ }, target)
    }
    for (const target of hot) {
      t.match(await sendRequest(program.url, target), { status: 200, headers: { 'cache-status': /hit/ } })
    }
    const readiness = await sendRequest(program.adminUrl, '/readyz')
    t.match(
      readiness,
      { status: 200, body: /serving cached responses only/ },
      'the admin listener responds and reports it'
    )
    t.ok(sumOfSeries(await seriesOf(program), 'varve_shed_total') > 3)
    process.kill(program.pid, 'SIGUSR2')
    await until(async () => (await miss()).status === 200, 'misses are served again', 20_000)
  }
)

t.test(
  'with few descriptors, many clients take none from the upstreams, which stay healthy',
  { skip: !isLinux, timeout: 90_000 },
  async t => {
    const descriptors = 700
    const { program } = await warmProgram(t, {}, { descriptors })
    const idle = (await openConnections(t, program.url, 250)).map(socket => new PersistentClient(socket))
    for (const client of idle) await client.get(hot[0] ?? '')
    const crowd = await openConnections(t, program.url, descriptors)
    for (const socket of crowd) socket.resume()
    let version = 3000
    await until(
      async () => sumOfSeries(await seriesOf(program), 'varve_connections_cut_total') >= 500,
      '500 connections are cut'
    )
    await until(
      async () =>
        sumOfSeries(await seriesOf(program), 'varve_connections') <=
          idle.filter(({ socket }) => !socket.destroyed).length,
      'the silent connections are closed'
    )
    const misses = await Promise.all(
      Array.from({ length: 100 }, async () => (await sendRequest(program.url, read(version++))).status)
    )
    t.ok(misses.every(status => status === 200), misses.join(' '))
    const series = await seriesOf(program)
    t.equal(series.get('varve_upstream_up{upstream="node"}'), 1)
    t.equal(sumOfSeries(series, 'varve_upstream_requests_total', 'status="exhausted"'), 0)
    t.ok(sumOfSeries(series, 'varve_connections') <= descriptors - 256 - 128)
    t.same(program.errors, [])
  }
)

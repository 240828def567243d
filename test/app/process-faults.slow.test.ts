import { openSync, readdirSync, readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { withTimeout } from '../../src/with-timeout.js'
import { sendRequest } from '../support/client.js'
import { isGone, spawnProgram, startProgram } from '../support/program.js'
import { startSandboxNode } from '../support/replicas.js'
import { listening } from '../support/stub-upstream.js'
import { together } from '../support/together.js'
import { until } from '../support/until.js'

// Most of the time is waiting, so these tests run concurrently.
t.jobs = 3

const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

t.test('a full disk for the log loses lines, which are counted, and nothing else', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  for (const workers of ['1', '2']) {
    const config = join(t.testdir({ 'v.yaml': 'log: { access: true }' }), 'v.yaml')
    const varve = await startProgram(t, ['--upstream', upstream.url, '--config', config, '--workers', workers], {
      stdout: openSync('/dev/full', 'w')
    })
    for (let nth = 0; nth < 50; nth++) t.match(await sendRequest(varve.url, modules(2000)), { status: 200 })
    t.ok(await varve.metric('varve_log_lines_lost_total') >= 50)
    varve.child.kill('SIGTERM')
    t.same(await varve.ended, { code: 0, signal: null })
    t.equal(varve.err(), '')
  }
})

t.test('a log reader that is gone or stuck loses lines and delays no reads nor grows memory', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const config = join(t.testdir({ 'v.yaml': 'log: { access: true }' }), 'v.yaml')
  // A stuck one needs twice the lines that may wait, at some 250 bytes a line.
  for (const [how, reads] of [['gone', 100], ['stuck', 2000]] as const) {
    const varve = await startProgram(t, ['--upstream', upstream.url, '--config', config])
    if (how === 'gone') varve.child.stdout?.destroy()
    else varve.child.stdout?.pause()
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    t.teardown(() => {
      agent.destroy()
    })
    const statuses = new Set<number>()
    const lane = async (): Promise<void> => {
      for (let nth = 0; nth < reads; nth++) {
        statuses.add((await sendRequest(varve.url, modules(2000), { agent })).status)
      }
    }
    await Promise.all([lane(), lane(), lane(), lane()])
    t.same([...statuses], [200])
    const lost = await varve.metric('varve_log_lines_lost_total')
    t.ok(lost > reads, `${lost} lines ${how}`)
    if (how === 'stuck') {
      varve.child.stdout?.resume()
      await until(
        () => /"lost":\d+,"msg":"log lines lost: the log buffer was full/.test(varve.out()),
        'the log reports lost lines'
      )
    }
    varve.child.kill('SIGTERM')
    t.same(await varve.ended, { code: 0, signal: null })
  }
})

t.test('a second signal ends varve and all workers at once, also while it starts', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await startProgram(t, ['--upstream', upstream.url, '--workers', '2'])
  const pids = await varve.pids(2)
  varve.child.kill('SIGINT')
  await until(() => varve.out().includes('"stopping"'), 'the log says stopping')
  varve.child.kill('SIGINT')
  t.same(await varve.ended, { code: 130, signal: null })
  t.notMatch(varve.out(), /"msg":"stopped"/, 'it did not wait for the first drain')
  await until(() => pids.every(isGone), 'no worker is left')
  const silent = await listening(t, createServer(() => {}))
  const starting = spawnProgram(t, ['--workers', '2', '--upstream', silent, ...free])
  await starting.saw(/"listening"/)
  starting.child.kill('SIGTERM')
  await pause(100)
  t.equal(starting.child.exitCode, null, 'it still waits for the upstream')
  // Repeats the signal: a busy machine may have delivered the first one only now.
  await until(
    async () => {
      starting.child.kill('SIGTERM')
      return await withTimeout(100, starting.ended) !== undefined
    },
    'the process has ended',
    2000
  )
  t.equal((await starting.ended).code, 143)
})

// Makes a promise reject without a handler, or an error escape, as a library may do one day.
const failing = `
process.on('SIGUSR2', () => { Promise.reject(new Error('redis://:r3dis-pass@127.0.0.1:1 said no to Bearer s3cret-key')) })
process.on('SIGWINCH', () => { setImmediate(() => { throw new Error('https://gateway/p4th-of-a-gateway said no to adm1n-t0ken') }) })
`

t.test(
  'a crash prints no secret; varve survives a rejection, exits on an error, replaces workers',
  together(),
  async t => {
    const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
    const dir = t.testdir({
      'failing.mjs': failing,
      'v.yaml': 'admin: { token: adm1n-t0ken }\ncache: { redis: { url: "redis://:r3dis-pass@127.0.0.1:1" } ' +
        `}\nupstreams: [{ url: "${upstream.url}", headers: { authorization: "Bearer s3cret-key" } }, { url: ` +
        '"http://127.0.0.1:9/p4th-of-a-gateway" }]\n'
    })
    const secret = /s3cret|adm1n-t|r3dis|p4th/
    for (const workers of ['1', '2']) {
      const varve = await startProgram(t, ['--config', join(dir, 'v.yaml'), '--workers', workers], {
        nodeArgs: ['--import', join(dir, 'failing.mjs')]
      })
      const { child, url, adminUrl: admin, ended } = varve
      const output = (): string => varve.out() + varve.err()
      const metric = async (kind: string): Promise<number> =>
        await varve.metric(`varve_unhandled_total{kind="${kind}"}`)
      await until(async () => await metric('rejection') === 0, 'varve counts')
      const pid = workers === '1' ? child.pid ?? NaN : (await varve.pids(2))[0] ?? NaN
      // Waits for counters: a start that waits for Redis counts from its end on.
      await until(async () => {
        process.kill(pid, 'SIGUSR2')
        return await metric('rejection') > 0
      }, 'the rejection is counted')
      t.match(await sendRequest(url, modules(2000)), { status: 200 })
      t.match(
        output(),
        /"level":50.*redis:\/\/:\*\*\*@127\.0\.0\.1:1 said no to \*\*\*.*"msg":"unhandled rejection: varve continues/
      )
      process.kill(pid, 'SIGWINCH')
      await until(
        () =>
          /"level":60.*https:\/\/gateway\*\*\* said no to \*\*\*.*uncaught exception: the process exits/.test(output()),
        'the log has the reason'
      )
      if (workers === '1') t.equal((await ended).code, 1)
      else {
        await until(async () => {
          const { workers: now } = JSON.parse((await sendRequest(admin, '/status.json')).body) as {
            workers: Array<{ pid: number, ready: boolean }>
          }
          return now.length === 2 && now.every(one => one.ready && one.pid !== pid)
        }, 'another worker has replaced the lost one')
        t.equal(await metric('exception'), 1, 'its last counts are not lost')
        child.kill('SIGTERM')
        t.equal((await ended).code, 0)
      }
      t.match(
        output(),
        /varve: uncaught exception, exiting: https:\/\/gateway\*\*\* said no to \*\*\*\n/
      )
      t.notMatch(output(), secret)
      t.equal(output().match(/"level":60/g)?.length, 1)
    }
  }
)

// Takes the descriptors that the connection limit leaves over, and returns them, on a signal.
const greedy = `
import { closeSync, openSync } from 'node:fs'
let open = []
process.on('SIGUSR2', () => {
  if (open.length > 0) for (const file of open.splice(0)) closeSync(file)
  else try { for (;;) open.push(openSync('/dev/null', 'r')) } catch {}
})
`

t.test('without descriptors varve serves its clients, blames no upstream, and recovers after', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const preload = join(t.testdir({ 'greedy.mjs': greedy }), 'greedy.mjs')
  for (const workers of ['1', '2']) {
    const varve = await startProgram(t, ['--upstream', upstream.url, '--workers', workers], {
      files: 160,
      nodeArgs: ['--import', preload]
    })
    const pids = [varve.child.pid ?? NaN, ...workers === '1' ? [] : await varve.pids(Number(workers))]
    await sendRequest(varve.url, modules(2000))
    await sendRequest(varve.url, modules(2000))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => {
      agent.destroy()
    })
    const readCached = async (): Promise<number> => (await sendRequest(varve.url, modules(2000), { agent })).status
    t.equal(await readCached(), 200)
    for (const pid of pids) process.kill(pid, 'SIGUSR2')
    const flood: Socket[] = []
    for (let nth = 0; nth < 100; nth++) {
      flood.push(connect(Number(new URL(varve.url).port), '127.0.0.1').on('error', () => {}))
      await pause(1)
    }
    await until(() => varve.out().includes('no file descriptor left'), 'the log reports that descriptors are exhausted')
    const before = processorMs(varve.child.pid ?? 0)
    for (let nth = 0; nth < 20; nth++) {
      t.equal(await readCached(), 200)
      await pause(50)
    }
    const processorUsedMs = processorMs(varve.child.pid ?? 0) - before
    t.ok(processorUsedMs < 700, `${processorUsedMs} ms of the processor in a second`)
    for (const socket of flood) socket.destroy()
    for (const pid of pids) process.kill(pid, 'SIGUSR2')
    await until(
      async () => (await sendRequest(varve.url, modules(2001))).status === 200,
      'varve accepts new connections'
    )
    // Opens sixteen clients at a time: more do not fit into so few descriptors.
    const fresh = await Promise.all(
      Array.from({ length: 8 }, async () => (await sendRequest(varve.url, modules(2000))).status)
    )
    t.same([...new Set(fresh)], [200])
    await until(
      () => varve.out().includes('file descriptors available again'),
      'the log reports descriptors as available'
    )
    t.ok(await varve.metric('varve_descriptors_exhausted_total') >= 1)
    await until(
      async () =>
        /"degraded":\["no file descriptor was left[^"]*"\]/.test((await sendRequest(varve.adminUrl, '/readyz')).body),
      'nothing else is degraded 15 seconds after the last error',
      20_000
    )
    if (workers === '2') {
      for (const pid of pids) await until(() => openFiles(pid) < 60, 'nothing remains for clients that have left')
    }
    t.ok(varve.out().split('\n').length < 40, 'there are few log lines')
    varve.child.kill('SIGTERM')
    t.same(await varve.ended, { code: 0, signal: null })
    t.equal(varve.err(), '')
  }
})

// Simulates a clock that is set or has drifted: it jumps by hours both ways every 50 ms.
const jumping = `
const [RealDate, began] = [Date, performance.now()]
const hours = [0, 5, -3, 47, -9, 1, -26]
const off = () => (hours[Math.floor((performance.now() - began) / 50) % hours.length] ?? 0) * 3600_000
globalThis.Date = class extends RealDate {
  constructor (...all) { if (all.length === 0) super(RealDate.now() + off()); else super(...all) }
  static now () { return RealDate.now() + off() }
}
`

interface TimedRead {
  readonly from: number
  readonly to: number
  readonly isHit: boolean
}

/**
 * Returns responses older than their lifetime and fetches before its end; a fetch happens between request and response.
 */
function untimely (all: readonly TimedRead[], cachedMs: number): string[] {
  let last: TimedRead | undefined
  let fetches = 0
  const faults: string[] = []
  for (const one of all) {
    if (last !== undefined && one.isHit && one.from > last.to + cachedMs + 5) {
      faults.push(`a hit ${one.from - last.to} ms after it was fetched`)
    }
    if (last !== undefined && !one.isHit && one.to < last.from + cachedMs - 5) {
      faults.push(`fetched again after ${one.to - last.from} ms`)
    }
    if (one.isHit) continue
    last = one
    fetches++
  }
  return fetches === 0 || (fetches === 1 && cachedMs < 5000) ? [`fetched ${fetches} times`] : faults
}

t.test('a wall clock that jumps by hours changes no lifetime, no timeout and no metric', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const dir = t.testdir({
    'jumping.mjs': jumping,
    'v.yaml': 'latest: { infoMs: 1500 }\npages: { eventsTtlSeconds: 2 }\nhead: { pollMs: 100 }\nlog: { access: true }\n'
  })
  const varve = await startProgram(t, ['--upstream', upstream.url, '--config', join(dir, 'v.yaml')], {
    nodeArgs: ['--import', join(dir, 'jumping.mjs')]
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => {
    agent.destroy()
  })
  const statusOf = async (target: string): Promise<string> =>
    String((await sendRequest(varve.url, target, { agent })).headers['cache-status'])

  // Expects one fetch per lifetime, while reads come all the time.
  const events = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=5&limit=10'
  const seen = { [events]: [] as TimedRead[], '/v1/info': [] as TimedRead[], [modules(2000)]: [] as TimedRead[] }
  const began = performance.now()
  while (performance.now() - began < 5000) {
    for (const [target, all] of Object.entries(seen)) {
      const from = performance.now()
      const isHit = (await statusOf(target)).includes('hit')
      all.push({ from, to: performance.now(), isHit })
    }
    await pause(20)
  }
  t.ok(seen[events]?.some(({ isHit }) => isHit))
  for (const [target, cachedMs] of [[events, 2000], ['/v1/info', 1500], [modules(2000), Infinity]] as const) {
    t.same(untimely(seen[target] ?? [], cachedMs), [], target)
  }

  upstream.ledger.grow(3)
  await until(
    async () =>
      (await sendRequest(varve.url, modules(2000), { agent })).headers['x-node-ledger-version'] ===
        String(upstream.ledger.head.version),
    'the head is shown',
    2000
  )
  const age = await varve.metric('varve_ledger_position_age_seconds')
  t.ok(age >= 0 && age < 2, `${age} s`)

  upstream.faults.add({ kind: 'hang', match: 'account_modules' })
  const startedAt = performance.now()
  t.match(await sendRequest(varve.url, modules(1234), { agent }), { status: 503 })
  const tookMs = performance.now() - startedAt
  t.ok(tookMs > 4500 && tookMs < 8000, `${tookMs} ms until the timeout of 5 s`)
  upstream.faults.clear()
  t.match(await sendRequest(varve.url, modules(1235), { agent }), { status: 200 })

  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  for (const [line, name = '', value] of body.matchAll(/^(varve_\w+_seconds_sum)\{.*\} (\S+)$/gm)) {
    t.ok(Number(value) >= 0 && Number(value) < 20, `${name}: ${line}`)
  }
  const lines = varve.out().split('\n').slice(0, -1).map(line => JSON.parse(line) as { time: number, tookMs?: number })
  t.ok(lines.every(({ tookMs = 0 }) => tookMs >= 0 && tookMs < 8000))
  t.ok(
    Math.max(...lines.map(({ time }) => time)) - Math.min(...lines.map(({ time }) => time)) > 40 * 3_600_000,
    'the clock did jump'
  )
  // The read that timed out counts for a few seconds.
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), { ready: true })
  varve.child.kill('SIGTERM')
  t.same(await varve.ended, { code: 0, signal: null })
})

/** Returns the processor time that a process has used. */
function processorMs (pid: number): number {
  const [user = '0', system = '0'] =
    readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 13) ?? []
  return (Number(user) + Number(system)) * 10
}

function openFiles (pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

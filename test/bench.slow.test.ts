import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'

const root = join(import.meta.dirname, '..')

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs the benchmarks to their end. */
async function bench (args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  return await new Promise(resolve => {
    execFile(
      process.execPath,
      [join(root, 'bench/run.js'), ...args],
      { env: { ...process.env, ...environment } },
      (error, out, err) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : 1, out, err })
      }
    )
  })
}

// Lists the rows that each table has whatever else is installed, by their beginnings.
const claims: ReadonlyArray<readonly [claim: string, promise: string, rows: readonly RegExp[]]> = [
  ['hot-key', 'the benchmark of a hot key runs, and each server gives the node\'s own bytes from its cache', [
    /^\| one key +\| +varve \| +bare \|/m,
    /^\| 64 KiB, 32 connections/m
  ]],
  ['tls', 'the benchmark of a hot key over TLS runs, and each server gives the node\'s own bytes from its cache', [
    /^\| one key +\| +varve \|/m
  ]],
  [
    'trace',
    'the benchmark of a trace runs, each variant gets the node\'s own answer, and varve reads hardly more ' +
    'than the floor',
    [/^\| the floor /m, /^\| varve /m, /^\| bare /m]
  ],
  ['miss', 'the benchmark of a miss runs, and each read reaches the node once', [/^\| direct /m, /^\| varve adds /m]],
  ['forward', 'the benchmark of forwarding runs, and each proxy fetches each read with the node\'s own bytes', [
    /^\| node:http and undici /m,
    /^\| Fastify and http-proxy /m,
    /^\| varve /m
  ]],
  ['redis-hit', 'the benchmark of a hit in Redis runs, and each read comes from where it is said to', [
    /^\| a hit in Redis /m,
    /^\| a hit in memory /m
  ]],
  ['disk-hit', 'the benchmark of a hit on disk runs, and each read comes from where it is said to', [
    /^\| a hit on disk /m,
    /^\| a hit in Redis /m,
    /^\| a hit in memory /m
  ]],
  ['restart', 'the benchmark of a restart runs, and the disk tier saves reads of the node', [
    /^\| with the disk tier +\| +(?:100|9\d)\.\d /m,
    /^\| without /m
  ]],
  ['burst', 'the benchmark of a burst runs, and equal misses cost varve one read of the node', [
    /^\| varve +\| +1 \(1-1\) \|/m
  ]],
  ['follow', 'the benchmark of following runs, and no followed response is wrong or too old', [
    /^\| varve, follow on +\|.*\| +0 \| +0 \|$/m,
    /^\| varve, stateMs 250 /m
  ]],
  ['memory', 'the benchmark of memory runs, and the cache holds what it was given, or was full', [
    /^\| 1 KiB +\| +200 and 400 \|/m,
    /^\| 2 +\| +64 KiB \|/m
  ]],
  ['start-up', 'the benchmark of a start runs, and the first response is the right one', [
    /^\| varve /m,
    /^\| varve, on one core /m
  ]]
]

// Costs most processor time, and shares its code with other claims, so only the nightly run has all. The smallest run
// of hot-key is below.
const nightly = new Set([
  'hot-key',
  'tls',
  'forward',
  'redis-hit',
  'disk-hit',
  'restart',
  'burst',
  'follow',
  'memory',
  'start-up'
])
const isWhole = process.env['BENCH_CLAIMS'] === 'all'

// Runs smoke runs side by side, because they check responses and no speed.
t.jobs = 2

for (const [claim, promise, rows] of claims.filter(([claim]) => isWhole || !nightly.has(claim))) {
  t.test(promise, { buffered: true }, async t => {
    const { code, out, err } = await bench(['--smoke', claim])
    t.equal(code, 0, err)
    t.match(out, new RegExp(`^## ${claim}: `, 'm'))
    for (const row of rows) t.match(out, row)
    // Allows 10 %: in a trace this small, two blocks that miss twice at once weigh more than in a long one.
    if (claim === 'trace') t.ok(Number(/^\| varve +\| +\d+ \| +[\d.]+ \| +([\d.]+) \|/m.exec(out)?.[1]) <= 1.1, out)
  })
}

t.test('the benchmarks reject an unknown argument in one sentence that lists the known ones', async t => {
  t.match(await bench(['--smoke', 'hot-keys']), {
    code: 2,
    out: '',
    err: /^varve: unknown argument hot-keys: expected any of hot-key, tls, trace, [^\n]*, --smoke\n$/
  })
  t.match(await bench(['--rounds', 'few']), {
    code: 2,
    out: '',
    err: /^varve: --rounds expects a whole number from 1 to 9999, got few\n$/
  })
})

t.test('the benchmarks name a missing tool with its package and measure the rest', async t => {
  const PATH = t.testdir({ node: t.fixture('symlink', process.execPath) })
  const smoke = await bench(['--smoke', 'hot-key'], { PATH })
  t.equal(smoke.code, 0, smoke.err)
  for (
    const [tool, name] of [['wrk', 'wrk'], ['nginx', 'nginx-light'], ['varnishd', 'varnish'], [
      'redis-server',
      'redis-server'
    ], ['taskset', 'util-linux']]
  ) {
    t.match(smoke.err, new RegExp(`^varve: ${tool} is not on PATH; the Debian package ${name} provides it;`, 'm'))
  }
  t.match(smoke.out, /^\| one key +\| +varve \| +bare \| +varve\/bare \|$/m)
  t.match(smoke.out, /^\| 64 KiB, 32 connections/m)
  t.match(await bench(['hot-key', 'redis-hit'], { PATH }), {
    code: 1,
    err: /hot-key is skipped: it needs wrk\n.*redis-hit is skipped: it needs redis-server\n.*nothing was measured\n$/s
  })
})

t.test('Ctrl-C ends the benchmarks with all processes they started and leaves no folder behind', {
  skip: existsSync('/proc/self/environ') ? false : 'there is no /proc to look for processes in'
}, async t => {
  const TMPDIR = t.testdir()
  const variable = `BENCH_TEST=${process.pid}`
  const child = spawn(process.execPath, [join(root, 'bench/run.js'), 'burst', '--rounds', '1000'], {
    env: { ...process.env, TMPDIR, BENCH_TEST: String(process.pid) },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  for await (const line of createInterface(child.stderr)) if (line.includes('round 2')) break
  child.stderr.resume()
  t.ok(running(variable).length >= 3, 'the benchmarks, the origin and varve')
  const ended = once(child, 'exit')
  child.kill('SIGINT')
  t.same(await ended, [130, null])
  // Waits, because a killed process takes a moment to disappear.
  for (let attempt = 0; attempt < 100 && running(variable).length > 0; attempt++) await pause(20)
  t.same(running(variable), [])
  t.same(readdirSync(TMPDIR), [])
})

/** Returns the command lines of all processes with a mark in their environment. */
function running (variable: string): string[] {
  return readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(pid => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(variable)
        ? [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')]
        : []
    } catch {
      return []
    }
  })
}

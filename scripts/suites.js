import { existsSync } from 'node:fs'
import { filesIn } from './compile.js'
import { at, textOf } from './ground.js'

const named = (...names) => names.map(name => `test/${name}.test.ts`)
const slow = (folder, ...names) => named(...names.map(name => `${folder}${name}.slow`))

/** Files of whole replicas and processes, which count for the coverage. */
const replicas = [
  ...slow('app/', 'start-faults', 'start-without-upstreams', 'shared-log'),
  ...slow('cache/', 'disk-folder', 'disk-tier'),
  ...slow('chain/', 'chain-resets', 'chain-separation', 'spaces', 'upstream-chains', 'wrong-chain'),
  ...slow('peers/', 'fetch-leases', 'host-peers', 'lost-records', 'purges', 'shared-tail'),
  ...slow('', 'config/reload', 'metrics/series-count', 'cli/warm', 'peers/worker-pool'),
  ...slow('redis/', 'changes', 'create-client', 'link'),
  ...slow('sandbox/', 'reads', 'transactions'),
  ...slow('upstreams/', 'failing-upstreams', 'stream-slots', 'surplus-response-bytes', 'upstream-overload')
]

/** Files that take a core each and excuse the time in which the machine stood still, so they run beside each other. */
const saturating = slow('', 'soak', 'fuzz')

/** Files that measure time and compute, so they run one at a time, beside no other but those that measure waits. */
const alone = slow('', 'http/blocked-loop', 'http/overload')

/** Files that measure waits and use next to no processor time, so they run beside each other. */
const waits = slow('', 'redis/faults', 'http/slow-clients')

/** Files that wait for timers and use next to no processor time, so they run beside all, and count for coverage. */
const idle = slow('', 'peers/redis-tail', 'http/certificate', 'upstreams/dns')

/** Long versions of checks that a faster file covers; `npm run ci` skips them. */
const nightly = slow(
  '',
  'deceptive/deceptive-upstream',
  'hostile',
  'image',
  'http/slow-link',
  'http/status-pictures',
  'release'
)

/** Files with property tests, which `npm run nightly` runs with ten times the cases. */
const random = [
  ...named(
    'api/dependencies',
    'api/oracle',
    'end-to-end',
    'config/secrets',
    'cache/tier-contract',
    'http/fast-path-differential'
  ),
  ...slow('cache/', 'disk-kill')
]

/** Longest files, slowest first: a long file that starts last would run alone at the end. */
const longest = [
  ...slow(
    '',
    'app/shared-log',
    'peers/worker-lifecycle',
    'package',
    'peers/shared-limits',
    'peers/shared-head',
    'readme',
    'http/status-page',
    'prometheus-rules',
    'app/process-faults',
    'prometheus',
    'chain/contradicting-upstream',
    'redis/cluster',
    'app/memory',
    'bench'
  ),
  ...named(
    'http/fast-path-differential',
    'hostile',
    'proxy/event-pages',
    'end-to-end',
    'deceptive/false-responses',
    'proxy/look-up',
    'http/streaming',
    'http/client-policies',
    'upstreams/upstream-pool'
  )
]

/** Groups the test files by when they run: those named *.slow.test.ts wait, measure or start several processes. */
export function suites () {
  const sets = [replicas, saturating, alone, waits, idle, nightly]
  for (const file of [...sets.flat(), ...random, ...longest, ...timed]) {
    if (!existsSync(at(file))) throw new Error(`scripts/suites.js lists ${file}, which does not exist`)
  }
  const all = filesIn('test').filter(file => file.endsWith('.test.ts'))
  const files = [...longest, ...all.filter(file => !longest.includes(file))]
  const isSlow = file => file.endsWith('.slow.test.ts')
  return {
    fast: files.filter(file => !isSlow(file)),
    replicas,
    waiting: files.filter(file => isSlow(file) && !sets.flat().includes(file)),
    saturating,
    alone,
    waits,
    idle,
    nightly,
    random
  }
}

// Bounds the wait for the last process, and the files that run beside a faulty one.
const mostInGroup = 20
// A line of the module itself that uses tap's root test for anything but a subtest, or listens to the process.
const ownProcess = /^(?!t\.test\(|import |\s).*\bt[.,)]|\bprocess\.on\(/m

// Fast files that compare durations, which the heap of earlier files would change.
const timed = named('api/json-scan', 'linear-time-patterns')

/** Groups files to share a process, because starting one costs more than most tests. */
export function groupsOf (files, most = mostInGroup) {
  const groups = []
  let open = []
  for (const file of files) {
    const isAlone = [...longest, ...timed].includes(file) || ownProcess.test(textOf(file))
    if (isAlone) {
      groups.push([file])
      continue
    }
    if (open.length % most === 0) groups.push(open = [])
    open.push(file)
  }
  return groups
}

/** Gives each file a process of its own. */
export const singly = files => files.map(file => [file])

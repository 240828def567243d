import { existsSync } from 'node:fs'
import { filesIn } from './compile.js'
import { at } from './ground.js'

const named = (folder, ...names) => names.map(name => `test/${folder}${name}.test.ts`)

/** Files that measure time or saturate the machine, so they run without other files beside them. */
const alone = named(
  'long/',
  'bench',
  'blocked-loop',
  'simulation',
  'fuzz',
  'hedging',
  'overload',
  'redis-faults',
  'slow-clients',
  'soak'
)

/** Long versions of checks that a faster file covers; `npm run ci` skips them. */
const nightly = named('long/', 'alerts', 'deceptive-upstream', 'image', 'slow-link')

/** Files with property tests, which `npm run nightly` runs with ten times the cases. */
const random = named(
  '',
  'api/oracle',
  'end-to-end',
  'proxy/events/event-page-lookup',
  'proxy/serve-in-observe-mode',
  'config/secrets',
  'whole/redis-block-index',
  'cache/redis-tier'
)

/** Longest files, slowest first: a long file that starts last would run alone at the end. */
const longest = [
  ...named(
    'long/',
    'workers',
    'status-page',
    'readme',
    'package',
    'prometheus',
    'process-faults',
    'dns',
    'prometheus-rules',
    'certificate'
  ),
  ...named(
    '',
    'deceptive/false-responses',
    'access',
    'end-to-end',
    'proxy/redis-lookup',
    'http/streaming',
    'hostile',
    'upstreams/upstream-client'
  )
]

/** Groups the test files by when they run; a file outside test/long/ and test/whole/ is fast. */
export function suites () {
  for (const file of [...alone, ...nightly, ...random, ...longest]) {
    if (!existsSync(at(file))) throw new Error(`scripts/suites.js lists ${file}, which does not exist`)
  }
  const all = filesIn('test').filter(file => file.endsWith('.test.ts'))
  const files = [...longest, ...all.filter(file => !longest.includes(file))]
  const isLong = file => file.startsWith('test/long/')
  const isWhole = file => file.startsWith('test/whole/')
  return {
    fast: files.filter(file => !isLong(file) && !isWhole(file)),
    whole: files.filter(isWhole),
    waiting: files.filter(file => isLong(file) && ![...alone, ...nightly].includes(file)),
    alone,
    nightly,
    random
  }
}

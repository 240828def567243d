import { existsSync } from 'node:fs'
import { filesIn } from './compile.js'
import { at } from './ground.js'

const named = (folder, ...names) => names.map(name => `test/${folder}${name}.test.ts`)

/** Files that measure time or saturate the machine: another file beside them would change what they see. */
const alone = named(
  'long/',
  'bench',
  'blocked-loop',
  'faults',
  'fences',
  'fleet',
  'fuzz',
  'hedging',
  'overload',
  'redis-faults',
  'slow-clients',
  'soak'
)

/** Files that repeat at length what a faster file checks: every lie on every kind of read, responses to slow links. */
const nightly = named('long/', 'deceptive', 'slow-readers')

/** Files with random properties, which `npm run nightly` runs ten times as long. */
const random = named(
  '',
  'api/oracle',
  'end-to-end',
  'proxy/events/pages',
  'proxy/observe',
  'config/secrets',
  'whole/shared-blocks',
  'cache/shared-store'
)

/** The test files of the checkout by how they run: every file is in one of the first five sets. */
export function suites () {
  for (const file of [...alone, ...nightly, ...random]) {
    if (!existsSync(at(file))) throw new Error(`scripts/suites.js lists ${file}, which does not exist`)
  }
  const files = filesIn('test').filter(file => file.endsWith('.test.ts'))
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

import { readFileSync } from 'node:fs'
import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { auditResults } from '../../../../src/proxy/auditor.js'
import { cutReasons } from '../../../../src/metrics/cut-reasons.js'
import { notKeptReasons } from '../../../../src/api/lifetime.js'
import { redisOperations, type RedisOperation } from '../../../../src/redis/operations.js'
import { certificate } from '../../certificate.js'
import { each, everyone, type Foretold, type Known, one, type Value, type Who } from '../known.js'
import { type Sent } from '../sent.js'
import { hangingAtFirst, waitingAtTight } from '../short-replica.js'
import { tightConcurrent } from '../stage.js'

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../package.json'), 'utf8')) as {
  version: string
}
const room = (2 * 256 + 1) * 1024 * 1024
const sum = (k: Known, what: Partial<Record<Who, string[]>>): number =>
  everyone.reduce(
    (total, who) => total + (what[who] ?? []).reduce((part, fact) => part + k.counted(who, k.facts.of(fact)), 0),
    0
  )
const byInstance = (k: Known, value: (who: Who) => Value): Foretold[] =>
  everyone.map(who => ({ labels: { instance: k.instance(who) }, value: value(who) }))
const written = (k: Known): number =>
  sum(k, {
    first: ['kept by first', 'of the moment at first', 'recalled by first'],
    second: ['kept by second', 'recalled by second'],
    tight: ['kept by tight']
  })
const shared = (k: Known): number =>
  sum(k, { first: ['kept by first'], second: ['kept by second'], tight: ['kept by tight'] })
// What is in memory was not in it before: what came in and is not there any more has made room.
const evicted = (k: Known): number =>
  k.counted(
    'tight',
    k.facts.of('entries of tight before') + k.facts.of('kept by tight') - k.facts.of('entries of tight after')
  )
const notKept = (k: Known, of: string): number =>
  of === 'status' ? k.count(({ pruned }) => pruned?.answer === 'upstream') : k.counted('first', k.facts.of(of))
const isBlock = ({ endpoint }: Sent): boolean => endpoint === 'block_by_version'
const isPage = ({ endpoint }: Sent): boolean => endpoint === 'account_events'
// Who is not answered by what is at hand looks into Redis; a block is found by its versions.
const looks = ({ outcome }: Sent): boolean => ['miss', 'hit_redis', 'gone', 'limited'].includes(outcome)

function operations (k: Known, of: RedisOperation): Value {
  switch (of) {
    // A page of events is found by what it has, once it is known which stream its path leads to; until then that is
    // asked for.
    case 'get':
      return [
        k.count(sent => looks(sent) && !isBlock(sent) && !isPage(sent)),
        k.count(sent => looks(sent) && !isBlock(sent))
      ]
    // A block is looked for in the one cut of the versions, and where it is not found maybe in the other.
    case 'find':
      return [
        k.count(sent => looks(sent) && isBlock(sent)),
        1.2 * k.count(sent => looks(sent) && isBlock(sent)) + k.count(sent => looks(sent) && isPage(sent))
      ]
    case 'set':
      return shared(k)
    case 'index':
      return [
        k.counted('first', k.facts.of('blocks kept by first')),
        k.counted('first', k.facts.of('blocks kept by first')) +
        k.count(sent => sent.outcome === 'miss' && isPage(sent))
      ]
    // What is found to be different is deleted, and nothing else was.
    case 'delete':
      return k.counted('second', k.facts.of('audits different'))
    // Each read of a limited client that no replica has at hand, but for those who were told no a moment ago.
    case 'limit':
      return [
        0,
        k.count(sent => sent.client !== undefined || sent.instance === k.instance('tight')) + k.counted('tight', 20)
      ]
    // What replicas do among themselves: each looks at the others twice a second at least.
    case 'control':
      return [3 * k.seconds, Infinity]
    case 'publish':
    case 'probe':
      return [0, Infinity]
    // Nothing was lost.
    case 'connect':
      return 0
  }
}

/** What every query of this dashboard is. */
export const varve: Record<string, (k: Known) => Foretold[]> = {
  'Processes/A': () => one(3),
  'Releases/A': () => one(3, { version }),
  'Releases/B': () => one(0),
  'Redis/A': () => one(1),
  'Memory full/A': () => one([200_000 / room, 4_000_000 / room]),
  'Wrong answers found/A': k => one(k.counted('second', k.facts.of('audits different'))),
  'Unforeseen/A': () => one(0),
  'Certificate ends in/A': k => one(Date.parse(new X509Certificate(certificate).validTo) / 1000 - k.at),
  'Workers lost/A': () => one(0),
  'Memory of the process/A': k => byInstance(k, () => [k.process.memory * 0.5, k.process.memory * 1.5]),
  'Processor/A': k => byInstance(k, () => [k.process.cpu / k.seconds * 0.7, k.process.cpu / k.seconds * 1.3]),
  'Event loop/A': k => byInstance(k, () => [0, 2]),
  'Bytes kept/A': () => one([200_000, 4_000_000], { tier: 'memory' }),
  'Bytes kept/B': () => one(room, { tier: 'memory' }),
  'Entries/A': k => one(k.facts.of('entries after'), { tier: 'memory' }),
  'Writes and evictions/A': k =>
    each('tier', ['memory', 'redis'], of => (of === 'memory' ? written(k) : shared(k)) / k.seconds),
  'Writes and evictions/B': k => one(evicted(k) / k.seconds, { tier: 'memory' }),
  'Not stored, by reason/A': k => each('reason', notKeptReasons, of => notKept(k, of) / k.seconds),
  'Audits/A': k => each('result', auditResults, of => k.counted('second', k.facts.of(`audits ${of}`)) / k.seconds),
  'Corrupt entries/A': k => one(k.counted('second', k.facts.of('corrupt')) / k.seconds),
  'Redis answers/A': k => byInstance(k, () => 1),
  'Asked, by operation/A': k =>
    each('operation', redisOperations, of => {
      const value = operations(k, of)
      return typeof value === 'number' ? value / k.seconds : [value[0] / k.seconds, value[1] / k.seconds]
    }),
  'Errors by operation/A': k =>
    each(
      'operation',
      redisOperations,
      of => of === 'get' ? k.counted('second', k.facts.of('redis get fails')) / k.seconds : 0
    ),
  // Redis is given half a second for each.
  'Latency by operation/A': () => each('operation', redisOperations, of => of === 'connect' ? NaN : [0, 0.5]),
  'Connections/A': k =>
    byInstance(k, who => ({ first: hangingAtFirst, second: 0, tight: tightConcurrent + waitingAtTight })[who]),
  'Cut off/A': k =>
    each(
      'reason',
      cutReasons,
      of => of === 'head' ? k.counted('first', k.facts.of('cut for their head')) / k.seconds : 0
    ),
  'Limited/A': k =>
    each(
      'by',
      ['address', 'key'],
      of => k.counted(of === 'key' ? 'first' : 'tight', k.facts.of(`limited by ${of}`)) / k.seconds
    ),
  // A late event loop would be that of the test too.
  'Shed/A': () => one(0),
  'Failures and losses/A': () => each('kind', ['exception', 'rejection', 'request'], () => 0),
  'Failures and losses/B': () => one(0),
  'Failures and losses/C': () => one(0),
  'Failures and losses/D': () => one(0),
  'Configuration read anew/A': () => each('result', ['exchanged', 'refused'], () => 0),
  'Configuration read anew/B': () => one(1)
}

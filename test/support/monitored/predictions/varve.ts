import { readFileSync } from 'node:fs'
import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { auditResults } from '../../../../src/proxy/audit-sampler.js'
import { connectionCutReasons } from '../../../../src/metrics/connection-cut-reasons.js'
import { notStoredReasons } from '../../../../src/api/store-verdict.js'
import { redisOperations, type RedisOperation } from '../../../../src/redis/operation-names.js'
import { certificate } from '../../certificate.js'
import {
  seriesFor,
  replicaNames,
  type ExpectedSeries,
  type KnownTraffic,
  singleSeries,
  type ExpectedValue,
  type ReplicaName
} from '../known-traffic.js'
import { type SentRequest } from '../expected-traffic.js'
import { hangingOnFirst, queuedOnTight } from '../limited-replica.js'
import { tightConcurrent } from '../monitored-environment.js'

// Default of limits.inFlightMb.
const defaultInFlightBytes = 64 * 1024 * 1024

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../package.json'), 'utf8')) as {
  version: string
}
// No connection is lost, so none is made again.
const timedOperations = redisOperations.filter(of => of !== 'connect')
const capacityBytes = (2 * 256 + 1) * 1024 * 1024
const sum = (k: KnownTraffic, what: Partial<Record<ReplicaName, string[]>>): number =>
  replicaNames.reduce(
    (total, who) =>
      total + (what[who] ?? []).reduce((part, fact) => part + k.expectedIncrease(who, k.facts.countOf(fact)), 0),
    0
  )
const byInstance = (k: KnownTraffic, value: (who: ReplicaName) => ExpectedValue): ExpectedSeries[] =>
  replicaNames.map(who => ({ labels: { instance: k.instance(who) }, value: value(who) }))
const written = (k: KnownTraffic): number =>
  sum(k, {
    first: ['stored by first', 'latest at first', 'looked up by first'],
    second: ['stored by second', 'looked up by second'],
    tight: ['stored by tight']
  })
const shared = (k: KnownTraffic): number =>
  sum(k, { first: ['stored by first'], second: ['stored by second'], tight: ['stored by tight'] })
// Counts evictions: entries before the span plus stored ones minus those after it.
const evicted = (k: KnownTraffic): number =>
  k.expectedIncrease(
    'tight',
    k.facts.countOf('entries of tight before') + k.facts.countOf('stored by tight') -
      k.facts.countOf('entries of tight after')
  )
const notStored = (k: KnownTraffic, of: string): number =>
  of === 'status'
    ? k.count(({ pruned }) => pruned?.answer === 'upstream')
    : k.expectedIncrease('first', k.facts.countOf(of))
const isBlock = ({ endpoint }: SentRequest): boolean => endpoint === 'block_by_version'
const isPage = ({ endpoint }: SentRequest): boolean => endpoint === 'account_events'
// True for reads that miss memory and look in Redis; a block is found by its versions.
const looks = ({ outcome }: SentRequest): boolean => ['miss', 'hit_redis', 'gone', 'limited'].includes(outcome)

function operations (k: KnownTraffic, of: RedisOperation): ExpectedValue {
  switch (of) {
    // Allows a range: a page is found by its events once the stream of its path is known, and needs a look-up before.
    case 'get':
      return [
        k.count(sent => looks(sent) && !isBlock(sent) && !isPage(sent)),
        k.count(sent => looks(sent) && !isBlock(sent))
      ]
    // Allows up to two look-ups for a block: in one cut of the versions, and in the other if that misses.
    case 'find':
      return [
        k.count(sent => looks(sent) && isBlock(sent)),
        1.2 * k.count(sent => looks(sent) && isBlock(sent)) + k.count(sent => looks(sent) && isPage(sent))
      ]
    case 'set':
      return shared(k)
    case 'index':
      return [
        k.expectedIncrease('first', k.facts.countOf('blocks stored by first')),
        k.expectedIncrease('first', k.facts.countOf('blocks stored by first')) +
        k.count(sent => sent.outcome === 'miss' && isPage(sent))
      ]
    // Counts entries that an audit found different: nothing else is deleted.
    case 'delete':
      return k.expectedIncrease('second', k.facts.countOf('audits different'))
    // Counts reads of a limited client that miss memory, hanging ones too, except shortly after a rejection.
    case 'limit':
      return [
        0,
        k.count(sent => sent.client !== undefined || sent.instance === k.instance('tight')) +
        k.expectedIncrease('tight', tightConcurrent + queuedOnTight)
      ]
    // Counts control commands: each replica looks at the others twice a second at least.
    case 'control':
      return [3 * k.seconds, Infinity]
    case 'publish':
    case 'probe':
      return [0, Infinity]
    // Expects no lost connection.
    case 'connect':
      return 0
  }
}

/** Predictions for every query of this dashboard. */
export const varve: Record<string, (k: KnownTraffic) => ExpectedSeries[]> = {
  'Processes/A': () => singleSeries(3),
  'Releases/A': () => singleSeries(3, { version }),
  'Releases/B': () => singleSeries(0),
  'Chains/A': () => singleSeries(3, { chain_id: '4', generation: '1' }),
  'Redis/A': () => singleSeries(1),
  'Memory full/A': () => singleSeries([200_000 / capacityBytes, 4_000_000 / capacityBytes]),
  'Wrong hits found/A': k => singleSeries(k.expectedIncrease('second', k.facts.countOf('audits different'))),
  'Unexpected errors/A': () => singleSeries(0),
  'Certificate expires in/A': k => singleSeries(Date.parse(new X509Certificate(certificate).validTo) / 1000 - k.at),
  'Workers lost/A': () => singleSeries(0),
  'Memory of the process/A': k => byInstance(k, () => [k.process.memory * 0.5, k.process.memory * 1.5]),
  'CPU/A': k => byInstance(k, () => [k.process.cpu / k.seconds * 0.7, k.process.cpu / k.seconds * 1.3]),
  'Event loop/A': k => byInstance(k, () => [0, 2]),
  'Cached bytes/A': () => singleSeries([200_000, 4_000_000], { tier: 'memory' }),
  'Cached bytes/B': () => singleSeries(capacityBytes, { tier: 'memory' }),
  'Entries/A': k => singleSeries(k.facts.countOf('entries after'), { tier: 'memory' }),
  'Writes and evictions/A': k =>
    seriesFor('tier', ['memory', 'redis'], of => (of === 'memory' ? written(k) : shared(k)) / k.seconds),
  'Writes and evictions/B': k => singleSeries(evicted(k) / k.seconds, { tier: 'memory' }),
  'Not stored by reason/A': k => seriesFor('reason', notStoredReasons, of => notStored(k, of) / k.seconds),
  'Audits/A': k =>
    seriesFor('result', auditResults, of => k.expectedIncrease('second', k.facts.countOf(`audits ${of}`)) / k.seconds),
  'Corrupt entries/A': k => singleSeries(k.expectedIncrease('second', k.facts.countOf('corrupt')) / k.seconds),
  'Redis reachable/A': k => byInstance(k, () => 1),
  'Redis operations/A': k =>
    seriesFor('operation', timedOperations, of => {
      const value = operations(k, of)
      return typeof value === 'number' ? value / k.seconds : [value[0] / k.seconds, value[1] / k.seconds]
    }),
  'Redis errors/A': k =>
    seriesFor(
      'operation',
      redisOperations,
      of => of === 'get' ? k.expectedIncrease('second', k.facts.countOf('redis get fails')) / k.seconds : 0
    ),
  // Bounds latencies by the bucket of the Redis timeout, half a second and the time to notice it.
  'Redis latency/A': () => seriesFor('operation', timedOperations, () => [0, 1]),
  // No replica has a disk tier.
  'Disk errors/A': () => [],
  'Dropped writes/A': () => [],
  'Bytes in flight/A': () => singleSeries([0, 3 * defaultInFlightBytes]),
  'Bytes in flight/B': () => singleSeries(3 * defaultInFlightBytes),
  // One upstream is always down, and some reads are rejected on purpose.
  'Severity/A': () => singleSeries([1, 2]),
  'Rejected for want of bytes/A': () => singleSeries(0),
  'Connections/A': k =>
    byInstance(k, who => ({ first: hangingOnFirst, second: 0, tight: tightConcurrent + queuedOnTight })[who]),
  'Connections closed/A': k =>
    seriesFor(
      'reason',
      connectionCutReasons,
      of => of === 'head' ? k.expectedIncrease('first', k.facts.countOf('cut for their head')) / k.seconds : 0
    ),
  'Rate limited/A': k =>
    seriesFor(
      'by',
      ['address', 'key'],
      of => k.expectedIncrease(of === 'key' ? 'first' : 'tight', k.facts.countOf(`limited by ${of}`)) / k.seconds
    ),
  // Expects no shed load: a late event loop would delay this test as well.
  'Load shed/A': () => singleSeries(0),
  'Failures and losses/A': () => seriesFor('kind', ['exception', 'rejection', 'request'], () => 0),
  'Failures and losses/B': () => singleSeries(0),
  'Failures and losses/C': () => singleSeries(0),
  'Failures and losses/D': () => singleSeries(0),
  // No replica has a collector.
  'Failures and losses/E': () => singleSeries(0),
  'Configuration reloads/A': () => seriesFor('result', ['reloaded', 'rejected'], () => 0),
  'Configuration reloads/B': () => singleSeries(1)
}

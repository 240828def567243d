import t from 'tap'
import { FollowComparer, type Observation, type FollowComparison } from '../../src/follow/follow-comparer.js'
import { LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { transactionAt } from '../support/tail.js'
import { until } from '../support/until.js'

const [a, b] = [16n, 32n]

function observed () {
  const knowledge = new LedgerKnowledge(64)
  const results: Array<[version: number, result: FollowComparison]> = []
  const running = { release: 'aaaa' }
  const observer = new FollowComparer({
    validityAt: (at, readAt, dependencies) => knowledge.validityAt(at, readAt, dependencies),
    headVersion: () => knowledge.head?.version,
    confirmRelease: async release => release === running.release,
    onObserved: ({ version }, result) => results.push([Number(version), result])
  })
  return {
    observer,
    results,
    running,
    begin: (version: number) => {
      knowledge.begin(transactionAt(version))
      observer.onBegin(BigInt(version))
    },
    follow: (version: number, touched: bigint[] = []) => {
      knowledge.append(transactionAt(version, touched))
      observer.onVersion(BigInt(version))
    },
    record: (version: number, etag = '"1"', change: Partial<Observation> = {}) => {
      observer.record({
        endpoint: 'account',
        family: 'one',
        version: BigInt(version),
        etag,
        release: 'aaaa',
        isRenderedByRelease: false,
        dependencies: [a],
        ...change
      })
    }
  }
}

t.test('a response that was not touched since the last one is equal, or shows a wrong follower', async t => {
  const { record, results, begin, follow } = observed()
  begin(10)
  record(10)
  follow(11, [b])
  record(11)
  follow(12)
  record(12, '"2"')
  t.same(results, [[10, 'unknown'], [11, 'equal'], [12, 'different']])
})

t.test('a touched key, another release or another read say nothing', async t => {
  const { record, results, begin, follow } = observed()
  begin(10)
  record(10)
  follow(11, [a])
  record(11, '"2"')
  record(11, '"3"', { release: 'bbbb' })
  record(11, '"4"', { family: 'other' })
  t.same(results.map(([, result]) => result), ['unknown', 'unknown', 'unknown', 'unknown'])
  record(11, '"3"', { release: 'bbbb' })
  t.same(results.at(-1), [11, 'equal'])
})

t.test('a response from above the head waits until its version was read, then counts as of it', async t => {
  const { record, results, begin, follow } = observed()
  begin(10)
  record(10)
  record(12)
  record(12, '"2"', { family: 'other' })
  follow(11)
  t.equal(results.length, 1)
  follow(12)
  t.same(results.slice(1), [[12, 'equal'], [12, 'unknown']])
  follow(13, [a])
  record(13, '"9"')
  t.same(results.at(-1), [13, 'unknown'])
})

t.test('responses that wait are bounded; beyond that they count as unknown', async t => {
  const { record, results, begin } = observed()
  begin(10)
  for (let nth = 0; nth < 10_010; nth++) record(11 + nth % 7)
  t.equal(results.length, 10)
  begin(50)
  t.equal(results.length, 10_010)
  record(51)
  t.equal(results.length, 10_010, 'there is room again')
})

t.test('a rendering that differs is wrong only if no upstream was upgraded meanwhile', async t => {
  for (const [release, result] of [['aaaa', 'different'], ['bbbb', 'unknown']] as const) {
    const { record, results, begin, running } = observed()
    running.release = release
    begin(10)
    record(10, '"1"', { isRenderedByRelease: true })
    record(10, '"2"', { isRenderedByRelease: true })
    await until(() => results.length === 2, 'both are reported')
    t.same(results, [[10, 'unknown'], [10, result]], release)
  }
})

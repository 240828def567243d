import fc from 'fast-check'
import t from 'tap'
import { type EntryInterval } from '../../src/api/read.js'
import { makeEntry, type Entry } from '../../src/cache/entry.js'
import { IntervalIndex } from '../../src/cache/interval-index.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { check, seedTitle } from '../support/properties.js'

const nothing = { wrote: () => {}, evicted: () => {} }

function block (first: bigint, last: bigint, height: bigint, family = 'json'): Entry {
  return makeEntry({
    key: `${family} ${height}`,
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(`${family} ${height}`),
    cursorAndGasHeaders: [],
    release: undefined,
    validity: { family, first, last }
  })
}

const bodyAt = (memory: MemoryTier, version: bigint, family = 'json'): string | undefined =>
  memory.get({ by: 'version', family, version })?.body.toString()

const interval = (family: string, first: number | bigint, last: number | bigint): EntryInterval => ({
  family,
  first: BigInt(first),
  last: BigInt(last)
})
const keyOf = ({ first, last }: EntryInterval): string => `${first} ${last}`

t.test('a version finds the block that contains it, and no other', async t => {
  const memory = new MemoryTier(1e6, nothing, () => 0)
  const high = 2n ** 63n
  for (
    const [first, last, height] of [[10n, 19n, 1n], [20n, 20n, 2n], [30n, 12_029n, 4n], [high, high + 1n, 9n]] as const
  ) memory.put(block(first, last, height))
  t.same([9n, 10n, 19n, 20n, 21n, 29n, 30n, 12_029n, 12_030n].map(version => bodyAt(memory, version)), [
    undefined,
    'json 1',
    'json 1',
    'json 2',
    undefined,
    undefined,
    'json 4',
    'json 4',
    undefined
  ])
  t.same(
    [high - 1n, high, high + 1n, high + 2n].map(version => bodyAt(memory, version)),
    [undefined, 'json 9', 'json 9', undefined],
    'also above 2^53'
  )
  t.equal(bodyAt(memory, 10n, 'bcs'), undefined, 'another family has no entry')
})

t.test('the index has one record per entry, and none for evicted or replaced entries', async t => {
  const memory = new MemoryTier(20_000, nothing, () => 0)
  for (let at = 0n; at < 500n; at++) memory.put(block(at * 10n, at * 10n + 9n, at))
  t.ok(memory.entries < 20)
  t.equal(memory.intervals, memory.entries)
  t.equal(bodyAt(memory, 5n), undefined)
  t.ok(bodyAt(memory, 4999n))
  memory.put(block(4990n, 4999n, 499n))
  t.equal(memory.intervals, memory.entries, 'the same block read again')
})

t.test('an expired block is not found by its versions', async t => {
  let now = 0
  const memory = new MemoryTier(1e6, nothing, () => now)
  memory.put({ ...block(0n, 9n, 1n), expiresAtMs: 5 })
  t.ok(bodyAt(memory, 3n))
  now = 5
  t.equal(bodyAt(memory, 3n), undefined)
  t.same([memory.entries, memory.intervals], [0, 0])
})

t.test('of two blocks that share a version, the older entry is evicted as wrong', async t => {
  const memory = new MemoryTier(1e6, nothing, () => 0)
  for (const [first, last, height] of [[0n, 9n, 1n], [10n, 19n, 2n], [20n, 29n, 3n]] as const) {
    memory.put(block(first, last, height))
  }
  memory.put(block(5n, 15n, 7n))
  t.same([4n, 5n, 15n, 16n, 20n].map(version => bodyAt(memory, version)), [
    undefined,
    'json 7',
    'json 7',
    undefined,
    'json 3'
  ])
  t.same([memory.entries, memory.intervals], [2, 2])
})

t.test(`the index finds exactly the intervals that overlap another, in any order (${seedTitle})`, async () => {
  // Points, short and long intervals.
  const lengths = fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 30 }), fc.integer({ min: 100, max: 300 }))
  const ranges = fc.record({ first: fc.integer({ min: 0, max: 200 }), length: lengths })
  const step = fc.record({ add: fc.boolean(), family: fc.constantFrom('a', 'b'), at: ranges })
  check(fc.property(fc.array(step, { maxLength: 80 }), fc.array(ranges, { maxLength: 5 }), (steps, wanted) => {
    const index = new IntervalIndex()
    const there = { a: new Map<string, EntryInterval>(), b: new Map<string, EntryInterval>() }
    for (const { add, family, at } of steps) {
      const one = interval(family, at.first, at.first + at.length - 1)
      // The memory tier removes all entries that overlap another before it puts that one.
      for (const key of index.overlapping(one)) {
        const other = there[family].get(key)
        if (other !== undefined) index.remove(other, key)
        there[family].delete(key)
      }
      if (!add) continue
      index.add(one, keyOf(one))
      there[family].set(keyOf(one), one)
    }
    for (const family of ['a', 'b'] as const) {
      for (const { first, length } of wanted) {
        const sought = interval(family, first, first + length - 1)
        const expected = [...there[family].values()].filter(one => one.first <= sought.last && one.last >= sought.first)
        if (index.overlapping(sought).sort().join() !== expected.map(keyOf).sort().join()) return false
        const containing = [...there[family].values()].filter(one =>
          one.first <= sought.first && one.last >= sought.first
        )
        const found = index.find(family, sought.first)
        if (found === undefined ? containing.length > 0 : !containing.map(keyOf).includes(found)) return false
      }
    }
    return index.size === there.a.size + there.b.size
  }))
})

t.test('numbers above 2^53 are exact, and a family without intervals leaves no record', async t => {
  const index = new IntervalIndex()
  const big = interval('a', 2n ** 63n, 2n ** 63n + 9n)
  index.add(big, 'key')
  t.same(index.overlapping(interval('a', big.last, big.last + 11n)), ['key'])
  t.same(index.overlapping(interval('a', big.last + 1n, big.last + 11n)), [])
  index.remove(interval('a', 5, 6), 'key')
  index.remove(interval('b', 5, 6), 'key')
  t.equal(index.size, 1)
  index.remove(big, 'key')
  t.same([index.size, index.overlapping(interval('a', 0, 2n ** 64n))], [0, []])
})

t.test('a change in the middle of 100,000 intervals costs a fraction of one look at all of them', async t => {
  const index = new IntervalIndex()
  const all = Array.from({ length: 100_000 }, (_, at) => interval('a', at * 20, at * 20 + 9))
  for (const [at, one] of all.entries()) index.add(one, String(at))
  const middle = interval('a', 1_000_010, 1_000_019)
  const rounds = Array.from({ length: 20 }, () => {
    const startedAtMs = performance.now()
    index.add(middle, 'middle')
    t.same(index.overlapping(middle), ['middle'])
    index.remove(middle, 'middle')
    const changedAtMs = performance.now()
    const found = all.filter(({ first, last }) => first <= middle.last && last >= middle.first)
    t.same(found, [])
    return { changeMs: changedAtMs - startedAtMs, scanMs: performance.now() - changedAtMs }
  })
  // The fastest rounds, since the machine may be busy.
  const [changeMs, scanMs] = [Math.min(...rounds.map(r => r.changeMs)), Math.min(...rounds.map(r => r.scanMs))]
  t.ok(changeMs < scanMs / 2, `${changeMs} ms for a change, ${scanMs} ms for a look at all`)
  t.same(index.overlapping(interval('a', 1_000_005, 1_000_025)), ['50000', '50001'])
})

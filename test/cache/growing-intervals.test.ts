import fc from 'fast-check'
import t from 'tap'
import { costOf, makeEntry, type Entry } from '../../src/cache/entry.js'
import { IntervalIndex } from '../../src/cache/interval-index.js'
import { invalidates } from '../../src/cache/invalidation.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { check, seedTitle } from '../support/properties.js'

/** A state response that is known to hold from one version to another. */
function stateAt (first: number, last = first, family = 'one', dependencies = [16n]): Entry {
  return makeEntry({
    key: `${family} ${last}`,
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(`${family} ${last}`),
    cursorAndGasHeaders: [],
    release: undefined,
    validity: { family, first: BigInt(first), last: BigInt(last) },
    dependencies
  })
}

const memoryOf = (now = () => 0): MemoryTier => new MemoryTier(1e6, { wrote: () => {}, evicted: () => {} }, now)
const found = (memory: MemoryTier, version: number, family = 'one'): [string, bigint] | undefined => {
  const { entry, last } = memory.findBefore(family, BigInt(version)) ?? {}
  return entry && last !== undefined ? [entry.key, last] : undefined
}

t.test('the entry that begins last at or before a version is found, whether it reaches it or not', async t => {
  const memory = memoryOf()
  for (const entry of [stateAt(10, 12), stateAt(20), stateAt(30, 35)]) memory.put(entry)
  t.same([9, 10, 15, 19, 20, 25, 30, 99].map(version => found(memory, version)), [
    undefined,
    ['one 12', 12n],
    ['one 12', 12n],
    ['one 12', 12n],
    ['one 20', 20n],
    ['one 20', 20n],
    ['one 35', 35n],
    ['one 35', 35n]
  ])
  t.equal(found(memory, 20, 'other'), undefined)
})

t.test('an expired or purged entry is found no more', async t => {
  let now = 0
  const memory = memoryOf(() => now)
  memory.put({ ...stateAt(10), expiresAtMs: 5 })
  t.ok(found(memory, 11))
  now = 5
  t.equal(found(memory, 11), undefined)
  t.equal(memory.intervals, 0)
})

t.test('an interval grows to the version that it proved valid for, never back', async t => {
  const memory = memoryOf()
  const [one, next] = [stateAt(10), stateAt(20)]
  memory.put(one)
  memory.put(next)
  memory.extend(one, 'one', 15n)
  memory.extend(one, 'one', 12n)
  memory.extend(stateAt(40), 'one', 50n)
  memory.extend(one, 'other', 50n)
  t.same([found(memory, 19), found(memory, 99)], [['one 10', 15n], ['one 20', 20n]])
  t.equal(memory.get({ by: 'version', family: 'one', version: 15n }), one)
  t.equal(memory.get({ by: 'version', family: 'one', version: 16n }), undefined)
  memory.invalidate({ keys: [one.key], intervals: [] })
  t.equal(found(memory, 19), undefined)
  t.equal(memory.intervals, 1, 'the record of a grown interval goes with its entry')
})

t.test('the key of a latest read purges every version of the read, and no other', async t => {
  const memory = memoryOf()
  for (const version of [10, 20, 30]) memory.put(stateAt(version))
  memory.put(stateAt(10, 10, 'other'))
  memory.invalidate({ keys: ['one'], intervals: [] })
  t.same([memory.entries, memory.intervals], [1, 1])
  t.ok(found(memory, 10, 'other'))
  t.ok(invalidates({ keys: ['one'], intervals: [] }, stateAt(10)))
  t.notOk(invalidates({ keys: ['one'], intervals: [] }, stateAt(10, 10, 'other')))
})

t.test('entries that following proved are dropped together; all others stay', async t => {
  const memory = memoryOf()
  memory.put(stateAt(10))
  memory.put({ ...stateAt(20, 25, 'block'), dependencies: undefined })
  let drops = 0
  memory.memoHolders.add({ dropMemo: () => drops++ })
  memory.invalidateFollowed()
  t.same([memory.entries, memory.intervals, drops], [1, 1, 1])
  t.ok(memory.getByKey('block 25'))
})

t.test('dependencies count as memory', async t => {
  t.ok(costOf(stateAt(1, 1, 'one', [1n, 2n, 3n])) > costOf(stateAt(1, 1, 'one', [1n])))
})

t.test(`the index finds and grows intervals as a list of them does, in any sequence (${seedTitle})`, async t => {
  const step = fc.record({ first: fc.nat(30), length: fc.nat(3), grow: fc.nat(6), isRemoved: fc.boolean() })
  check(
    fc.property(fc.array(step, { maxLength: 40 }), steps => {
      const index = new IntervalIndex()
      const there = new Map<string, { first: bigint, last: bigint }>()
      for (const { first: from, length, grow, isRemoved } of steps) {
        const [first, key] = [BigInt(from), String(from)]
        const interval = { family: 'one', first, last: first + BigInt(length) }
        const grown = { ...interval, last: first + BigInt(grow) }
        const last = grown.last > interval.last ? grown.last : interval.last
        for (const other of index.overlapping({ ...interval, last })) {
          index.remove({ ...interval, first: BigInt(other) }, other)
          there.delete(other)
        }
        if (isRemoved) continue
        index.add(interval, key)
        index.extend('one', key, grown.last)
        there.set(key, { first, last })
      }
      const sorted = [...there].sort(([, a], [, b]) => Number(a.first - b.first))
      if (index.keysIn('one').join() !== sorted.map(([key]) => key).join()) return false
      for (let number = 0n; number < 40n; number++) {
        const before = index.findBefore('one', number)
        const expected = sorted.findLast(([, { first }]) => first <= number)
        if (before?.key !== expected?.[0] || before?.last !== expected?.[1].last) return false
        const inside = sorted.filter(([, { first, last }]) => first <= number && number <= last).map(([key]) => key)
        const at = index.find('one', number)
        if (at === undefined ? inside.length > 0 : !inside.includes(at)) return false
      }
      return index.keysIn('other').length === 0
    }),
    300
  )
  t.pass()
})

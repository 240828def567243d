import fc from 'fast-check'
import t from 'tap'
import { type EntryInterval } from '../../src/api/read.js'
import { IntervalIndex } from '../../src/cache/memory-tier.js'
import { check, seedTitle } from '../support/properties.js'

const interval = (family: string, first: number | bigint, last: number | bigint): EntryInterval => ({
  family,
  first: BigInt(first),
  last: BigInt(last)
})

t.test(`the index finds and grows intervals as a list of them does, in any sequence (${seedTitle})`, async () => {
  // Points, short and long intervals, as blocks and followed state have them.
  const lengths = fc.oneof(fc.constant(0), fc.nat(30), fc.integer({ min: 100, max: 300 }))
  const step = fc.record({
    family: fc.constantFrom('a', 'b'),
    first: fc.nat(200),
    length: lengths,
    grow: fc.nat(20),
    isRemoved: fc.boolean()
  })
  const sought = fc.array(fc.tuple(fc.nat(200), lengths), { maxLength: 5 })
  check(
    fc.property(fc.array(step, { maxLength: 80 }), sought, (steps, wanted) => {
      const index = new IntervalIndex()
      const there = new Map<string, EntryInterval>()
      for (const { family, first, length, grow, isRemoved } of steps) {
        // The memory tier removes all entries that overlap another before it puts that one.
        const [one, key] = [interval(family, first, first + length), `${family} ${first}`]
        for (const other of index.overlapping(interval(family, first, first + Math.max(length, grow)))) {
          index.remove(there.get(other) ?? one, other)
          there.delete(other)
        }
        if (isRemoved) continue
        index.add(one, key)
        index.extend(family, key, BigInt(first + grow))
        there.set(key, interval(family, first, first + Math.max(length, grow)))
      }
      for (const family of ['a', 'b']) {
        const own = [...there].filter(([, one]) => one.family === family)
          .sort(([, a], [, b]) => Number(a.first - b.first))
        if (index.keysIn(family).join() !== own.map(([key]) => key).join()) return false
        for (const [from, length] of wanted) {
          const [first, last] = [BigInt(from), BigInt(from + length)]
          const overlapping = own.filter(([, one]) => one.first <= last && one.last >= first).map(([key]) => key)
          if (index.overlapping(interval(family, first, last)).join() !== overlapping.join()) return false
          const inside = own.filter(([, one]) => one.first <= first && one.last >= first).map(([key]) => key)
          const found = index.find(family, first)
          if (found === undefined ? inside.length > 0 : !inside.includes(found)) return false
          const before = own.findLast(([, one]) => one.first <= first)
          const foundBefore = index.findBefore(family, first)
          if (foundBefore?.key !== before?.[0] || foundBefore?.last !== before?.[1].last) return false
        }
      }
      return index.size === there.size && index.keysIn('other').length === 0
    }),
    300
  )
})

t.test('an interval is removed by its own key alone, and numbers above 2^53 are exact', async t => {
  const index = new IntervalIndex()
  index.add(interval('a', 5, 9), 'one')
  for (const [family, key] of [['a', 'never there'], ['b', 'one']] as const) index.remove(interval(family, 5, 9), key)
  t.same(index.overlapping(interval('a', 9, 9)), ['one'])
  const big = interval('b', 2n ** 63n, 2n ** 63n + 9n)
  index.add(big, 'big')
  t.same(index.overlapping(interval('b', big.last, big.last + 11n)), ['big'])
  t.same(index.overlapping(interval('b', big.last + 1n, big.last + 11n)), [])
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
    t.same(all.filter(({ first, last }) => first <= middle.last && last >= middle.first), [])
    return { changeMs: changedAtMs - startedAtMs, scanMs: performance.now() - changedAtMs }
  })
  // The fastest rounds, since the machine may be busy.
  const [changeMs, scanMs] = [Math.min(...rounds.map(r => r.changeMs)), Math.min(...rounds.map(r => r.scanMs))]
  t.ok(changeMs < scanMs / 2, `${changeMs} ms for a change, ${scanMs} ms for a look at all`)
})

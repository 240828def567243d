import fc from 'fast-check'
import t from 'tap'
import { coverOf, type EventRange, type ListedPage, PageIndex } from '../../src/cache/page-index.js'
import { check, seeded } from '../support/properties.js'

const page = (first: number | bigint, last: number | bigint): ListedPage => ({
  first: BigInt(first),
  last: BigInt(last),
  key: `${first} ${last}`,
  release: 'aaaa',
  isJoinable: true
})
const range = (first: number, last: number): EventRange => ({ first: BigInt(first), last: BigInt(last) })
const inOrder = (a: EventRange, b: EventRange): number => Number(a.first - b.first) || Number(a.last - b.last)

t.test(`whatever comes and goes, the pages that have any event of a run are found in their order, and none else (${seeded})`, async () => {
  const ranges = fc.record({ first: fc.integer({ min: 0, max: 60 }), length: fc.integer({ min: 1, max: 30 }) })
  const step = fc.record({ add: fc.boolean(), stream: fc.constantFrom('a', 'b'), at: ranges })
  check(fc.property(fc.array(step, { maxLength: 60 }), ranges, (steps, { first, length }) => {
    const index = new PageIndex()
    const there = { a: new Map<string, ListedPage>(), b: new Map<string, ListedPage>() }
    for (const { add, stream, at } of steps) {
      const one = page(at.first, at.first + at.length - 1)
      // The memory that uses it takes away what it puts anew.
      index.remove(stream, one)
      there[stream].delete(one.key)
      if (!add) continue
      index.add(stream, one)
      there[stream].set(one.key, one)
    }
    const wanted = range(first, first + length - 1)
    for (const stream of ['a', 'b'] as const) {
      const expected = [...there[stream].values()].filter(one => one.first <= wanted.last && one.last >= wanted.first)
      const found = index.overlapping(stream, wanted)
      if (found.map(({ key }) => key).sort().join() !== expected.map(({ key }) => key).sort().join()) return false
      if (found.some((one, at) => at > 0 && one.first < (found[at - 1]?.first ?? 0n))) return false
    }
    return index.size === there.a.size + there.b.size
  }))
})

t.test('numbers above 2^53 are no matter, and a stream without pages leaves nothing behind', async t => {
  const index = new PageIndex()
  const big = 2n ** 63n
  index.add('a', page(big, big + 9n))
  t.same(index.overlapping('a', { first: big + 9n, last: big + 20n }).map(({ first }) => first), [big])
  t.same(index.overlapping('a', { first: big + 10n, last: big + 20n }), [])
  index.remove('a', range(5, 6))
  index.remove('b', range(5, 6))
  t.equal(index.size, 1)
  index.remove('a', { first: big, last: big + 9n })
  t.same([index.size, index.overlapping('a', { first: 0n, last: 2n ** 64n })], [0, []])
})

t.test(`the fewest pages that have every event of a run between them are chosen, and none where one is missing (${seeded})`, async () => {
  const ranges = fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 8 })), { maxLength: 10 })
  check(
    fc.property(ranges, fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 12 }), (drawn, first, more) => {
      const pages = drawn.map(([from, length]) => range(from, from + length)).sort(inOrder)
      const wanted = range(first, first + more)
      const has = (some: readonly EventRange[]): boolean => {
        for (
          let at = wanted.first;
          at <= wanted.last;
          at++
        ) if (!some.some(one => one.first <= at && at <= one.last)) return false
        return true
      }
      const chosen = coverOf(pages.filter(one => one.first <= wanted.last && one.last >= wanted.first), wanted)
      if (!has(pages)) return chosen === undefined
      if (chosen === undefined || !has(chosen)) return false
      // By trying all subsets that are smaller.
      for (let mask = 0; mask < 2 ** pages.length; mask++) {
        const some = pages.filter((_one, at) => (mask >> at) % 2 === 1)
        if (some.length < chosen.length && has(some)) return false
      }
      return chosen.every((one, at) => at === 0 || one.first > (chosen[at - 1]?.first ?? -1n))
    }),
    300
  )
})

import fc from 'fast-check'
import t from 'tap'
import { PageIndex, type StreamEvents } from '../../src/cache/page-index.js'
import { check, seedTitle } from '../support/properties.js'

const page = (stream: string, first: number | bigint, last: number | bigint): StreamEvents => ({
  stream,
  first: BigInt(first),
  last: BigInt(last)
})
const keyOf = ({ first, last }: StreamEvents): string => `${first} ${last}`

t.test(`the index finds exactly the pages that overlap a range, in any sequence (${seedTitle})`, async () => {
  const ranges = fc.record({ first: fc.integer({ min: 0, max: 60 }), length: fc.integer({ min: 1, max: 30 }) })
  const step = fc.record({ add: fc.boolean(), stream: fc.constantFrom('a', 'b'), at: ranges })
  check(fc.property(fc.array(step, { maxLength: 60 }), ranges, (steps, { first, length }) => {
    const index = new PageIndex()
    const there = { a: new Map<string, StreamEvents>(), b: new Map<string, StreamEvents>() }
    for (const { add, stream, at } of steps) {
      const one = page(stream, at.first, at.first + at.length - 1)
      // The memory tier removes a page before it puts it again.
      index.remove(one)
      there[stream].delete(keyOf(one))
      if (!add) continue
      index.add(one, keyOf(one))
      there[stream].set(keyOf(one), one)
    }
    for (const stream of ['a', 'b'] as const) {
      const wanted = page(stream, first, first + length - 1)
      const expected = [...there[stream].values()].filter(one => one.first <= wanted.last && one.last >= wanted.first)
      if (index.overlapping(wanted).sort().join() !== expected.map(keyOf).sort().join()) return false
    }
    return index.size === there.a.size + there.b.size
  }))
})

t.test('numbers above 2^53 are exact, and a stream without pages leaves no record', async t => {
  const index = new PageIndex()
  const big = page('a', 2n ** 63n, 2n ** 63n + 9n)
  index.add(big, 'key')
  t.same(index.overlapping(page('a', big.last, big.last + 11n)), ['key'])
  t.same(index.overlapping(page('a', big.last + 1n, big.last + 11n)), [])
  index.remove(page('a', 5, 6))
  index.remove(page('b', 5, 6))
  t.equal(index.size, 1)
  index.remove(big)
  t.same([index.size, index.overlapping(page('a', 0, 2n ** 64n))], [0, []])
})

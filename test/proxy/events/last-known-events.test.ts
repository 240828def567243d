import fc from 'fast-check'
import t from 'tap'
import { type LastKnownEvent, LastKnownEvents } from '../../../src/proxy/events/last-known-events.js'
import { check, seedTitle } from '../../support/properties.js'

const end = (sequence: bigint, version = sequence * 10n): LastKnownEvent => ({ sequence, version })

t.test('a stream reaches to the last event seen of it, and streams are independent', async t => {
  const ends = new LastKnownEvents()
  t.equal(ends.reaches('a', 0n, 1000n), false, 'an unseen stream has no known end')
  ends.record('a', end(5n), 1000n, false)
  t.same([0n, 4n, 5n, 6n].map(sequence => ends.reaches('a', sequence, 1000n)), [true, true, true, false])
  t.equal(ends.reaches('b', 0n, 1000n), false)
})

t.test('an older page raises the end and never lowers it', async t => {
  const ends = new LastKnownEvents()
  ends.record('a', end(5n), 1000n, false)
  ends.record('a', end(3n), 2000n, false)
  t.equal(ends.reaches('a', 5n, 2000n), true)
  ends.record('a', end(7n), 2000n, false)
  t.equal(ends.reaches('a', 7n, 2000n), true)
})

t.test('the newest events set the end, also where the path has come to mean a shorter stream', async t => {
  const ends = new LastKnownEvents()
  ends.record('a', end(500n), 6000n, false)
  ends.record('a', end(2n, 6500n), 7000n, true)
  t.equal(ends.reaches('a', 3n, 7000n), false)
  t.equal(ends.reaches('a', 2n, 7000n), true)
})

t.test('the newest events of a lagging upstream do not lower the end', async t => {
  const ends = new LastKnownEvents()
  ends.record('a', end(50n), 600n, true)
  ends.record('a', end(40n), 450n, true)
  t.equal(ends.reaches('a', 50n, 500n), true)
  t.equal(ends.reaches('a', 50n, 499n), false, 'an upstream below the version of the last event need not have it')
  ends.record('a', end(40n), 500n, true)
  t.equal(ends.reaches('a', 50n, 500n), false, 'an upstream at that version must have it')
})

t.test('numbers that a double cannot distinguish stay distinct', async t => {
  const ends = new LastKnownEvents()
  const big = 2n ** 53n
  ends.record('a', end(big, big), big, false)
  t.same([ends.reaches('a', big, big), ends.reaches('a', big + 1n, big)], [true, false])
  ends.record('a', end(2n ** 64n - 1n, big + 1n), 2n ** 64n - 1n, false)
  t.same([ends.reaches('a', 2n ** 64n - 1n, big), ends.reaches('a', 2n ** 64n - 1n, big + 1n)], [false, true])
})

t.test('the last events of 10,000 streams are stored, and the least recently used is evicted', async t => {
  const ends = new LastKnownEvents()
  for (let at = 0; at < 10_000; at++) ends.record(`s${at}`, end(1n), 100n, false)
  t.equal(ends.reaches('s0', 1n, 100n), true)
  ends.record('one more', end(1n), 100n, false)
  t.same(['s0', 's1', 's2', 'one more'].map(stream => ends.reaches(stream, 1n, 100n)), [true, false, true, true])
})

t.test(`in any order of pages the end is never below what a recent upstream showed (${seedTitle})`, async () => {
  // Models a stream with one event every ten versions; upstreams lag, and pages arrive in any order.
  const pages = fc.array(
    fc.record({ readAt: fc.bigInt(10n, 400n), isNewest: fc.boolean(), back: fc.bigInt(0n, 10n) }),
    { minLength: 1, maxLength: 20 }
  )
  check(fc.property(pages, fc.bigInt(0n, 40n), fc.bigInt(0n, 400n), (seen, sequence, readAt) => {
    const ends = new LastKnownEvents()
    const lasts = seen.map(page => {
      const newest = page.readAt / 10n
      const last = page.isNewest || newest < page.back ? newest : newest - page.back
      ends.record('a', end(last), page.readAt, page.isNewest)
      return last
    })
    const highest = lasts.reduce((most, last) => last > most ? last : most)
    return ends.reaches('a', sequence, readAt) === (sequence <= highest && readAt >= highest * 10n)
  }))
})

import fc from 'fast-check'
import t from 'tap'
import { LastTouchedTable } from '../../src/follow/last-touched-table.js'
import { check, seedTitle } from '../support/properties.js'

t.test('the last touch of a key is known, and a key that was never touched has none', async t => {
  const table = new LastTouchedTable(5n, 64)
  table.touch(7n, 5n)
  table.touch(8n, 6n)
  table.touch(7n, 2n ** 63n)
  t.same([7n, 8n, 9n].map(key => table.lastTouch(key)), [2n ** 63n, 6n, undefined])
  t.equal(table.knownFrom, 5n)
})

t.test('digests that fall on one slot, zero and its replacement stay apart or look touched', async t => {
  const table = new LastTouchedTable(0n, 8)
  for (const [version, key] of [8n, 16n, 24n].entries()) table.touch(key, BigInt(version))
  t.same([8n, 16n, 24n, 32n].map(key => table.lastTouch(key)), [0n, 1n, 2n, undefined])
  table.touch(0n, 9n)
  t.equal(table.lastTouch(0n), 9n)
  t.equal(table.lastTouch(2n), 9n, 'a collision makes a key look touched, never untouched')
})

t.test('a full generation is forgotten when the next one is full, and knowledge then begins later', async t => {
  const table = new LastTouchedTable(1n, 4)
  for (const version of [1n, 2n, 3n, 4n, 5n, 6n]) table.touch(version * 16n, version)
  t.equal(table.knownFrom, 1n)
  t.equal(table.lastTouch(16n), 1n, 'the older generation is still known')
  table.touch(7n * 16n, 7n)
  t.equal(table.lastTouch(16n), undefined)
  t.equal(table.knownFrom, 5n, 'touches at the version that began the generation may be in the one before')
  t.same([4n, 5n, 6n, 7n].map(version => table.lastTouch(version * 16n)), [4n, 5n, 6n, 7n])
  table.clear(40n)
  t.same([table.knownFrom, table.lastTouch(64n)], [40n, undefined])
})

t.test(`every touch from the first known version on is known, in any sequence (${seedTitle})`, async t => {
  const touches = fc.array(fc.record({ key: fc.bigInt({ min: 0n, max: 12n }), step: fc.nat(1) }), { maxLength: 60 })
  check(
    fc.property(touches, fc.constantFrom(2, 4, 8, 64), (sequence, slots) => {
      const table = new LastTouchedTable(0n, slots)
      const last = new Map<bigint, bigint>()
      let version = 0n
      for (const { key, step } of sequence) {
        version += BigInt(step)
        // Zero shares its slot with its replacement.
        const own = key === 2n ? 13n : key
        table.touch(own, version)
        last.set(own, version)
      }
      return [...last].every(([key, at]) =>
        table.lastTouch(key) === at || (table.lastTouch(key) === undefined && at < table.knownFrom)
      )
    }),
    500
  )
  t.pass()
})

import fc from 'fast-check'
import t from 'tap'
import { isPinnedCursor, upstreamCursorOf, pinCursor, readPinnedCursor } from '../../src/api/pinned-cursor.js'
import { keysOf, targetOf } from '../../src/api/read.js'
import { readOfTarget } from '../support/proxy-context.js'
import { check, seedTitle } from '../support/properties.js'

const own = fc.uint8Array({ minLength: 1, maxLength: 60 }).map(bytes => Buffer.from(bytes).toString('hex')).filter(
  text => !isPinnedCursor(text)
)
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
const modules = '/v1/accounts/0x1/modules'
const space = { name: 'space' }

t.test(`a pinned cursor is hex of a version and the upstream's cursor, pinned once (${seedTitle})`, async () => {
  check(fc.property(u64, u64, own, (version, other, cursor) => {
    const pinned = pinCursor(version, cursor)
    const back = readPinnedCursor(pinned)
    return /^(?:[0-9a-f]{2})+$/.test(pinned) && back?.version === version && back.upstreamCursor === cursor &&
      upstreamCursorOf(pinned) === cursor && pinCursor(other, pinned) === pinCursor(other, cursor)
  }))
})

t.test(`a read with a pinned cursor has the key of its version and cursor (${seedTitle})`, async () => {
  check(fc.property(u64, own, fc.boolean(), (version, cursor, isUpper) => {
    const pinned = pinCursor(version, cursor)
    const read = readOfTarget(`${modules}?start=${isUpper ? pinned.toUpperCase() : pinned}&limit=5`)
    const plain = readOfTarget(`${modules}?ledger_version=${version}&start=${cursor}&limit=5`)
    return keysOf(read, space).value === keysOf(plain, space).value && targetOf(read) === targetOf(plain) &&
      read.hasPinnedCursor && !plain.hasPinnedCursor
  }))
})

t.test('an upstream\'s own cursor pins nothing and stays unchanged', async t => {
  for (const cursor of ['00ab', '76', '7661727666', '017661727665']) {
    t.same([readPinnedCursor(cursor), upstreamCursorOf(cursor), isPinnedCursor(cursor)], [undefined, cursor, false])
    t.match(readOfTarget(`${modules}?start=${cursor}`), {
      version: undefined,
      hasPinnedCursor: false,
      query: [['start', cursor]]
    })
  }
})

t.test('a ledger_version next to a pinned cursor must equal its version', async t => {
  const pinned = pinCursor(500n, '00ab')
  t.match(readOfTarget(`${modules}?start=${pinned}&ledger_version=0500`), {
    ledgerVersion: 500n,
    requestedVersion: 500n,
    hasPinnedCursor: true,
    query: [['start', '00ab']]
  })
  t.throws(() => readOfTarget(`${modules}?start=${pinned}&ledger_version=501`), { status: 400, code: 'invalid_input' })
})

t.test('a truncated or broken pinned cursor is rejected', async t => {
  const pinned = pinCursor(500n, '00')
  for (
    const cursor of [
      pinned.slice(0, 10),
      pinned.slice(0, 12),
      pinned.slice(0, -2),
      pinned.slice(0, -1),
      `${pinned}0`,
      `${pinned}zz`
    ]
  ) {
    t.throws(() => readOfTarget(`${modules}?start=${cursor}`), { status: 400, code: 'invalid_input' }, cursor)
  }
})

import fc from 'fast-check'
import t from 'tap'
import {
  headerNamesOf,
  headerSuffix,
  positionHeaders,
  PositionReader,
  readPosition,
  type ResponseHeaders
} from '../../src/api/position.js'
import { check, seedTitle } from '../support/properties.js'
import { stamps } from '../support/stub-upstream.js'

t.test('positions are read from ever new header families, and known families stay readable', async t => {
  for (let at = 0; at < 100; at++) {
    const own = Object.fromEntries(
      Object.entries(stamps()).map(([name, value]) => [name.replace('aptos', `made-up-${at}`), value])
    )
    t.equal(readPosition(own)?.family, `x-made-up-${at}-`)
  }
  t.equal(readPosition(stamps())?.family, 'x-aptos-')
})

t.test('a position is read from headers of any family', async t => {
  for (const family of ['x-aptos-', 'x-node-', 'x-movement-']) {
    const headers = Object.fromEntries(
      Object.entries(stamps()).map(([name, value]) => [name.replace('x-aptos-', family), value])
    )
    t.match(readPosition(headers), {
      family,
      position: {
        chainId: 4,
        head: { version: 1000n, timestampUsec: 1000000n, epoch: 2n, blockHeight: 100n },
        oldest: { version: 10n, blockHeight: 1n }
      }
    })
  }
})

t.test('only the epoch is optional in a position', async t => {
  const { 'x-aptos-epoch': _, ...rest } = stamps()
  t.equal(readPosition(rest)?.position.head.epoch, undefined)
  t.ok(readPosition(rest))
  for (const name of Object.keys(rest)) {
    t.equal(readPosition({ ...rest, [name]: undefined }), undefined, `without ${name}`)
  }
})

t.test('an impossible position is rejected', async t => {
  const bad: Record<string, string>[] = [
    { 'x-aptos-ledger-version': '9' },
    { 'x-aptos-block-height': '0' },
    { 'x-aptos-chain-id': '256' },
    { 'x-aptos-ledger-version': '-1' },
    { 'x-aptos-ledger-version': '1e3' },
    { 'x-aptos-ledger-version': '18446744073709551616' },
    { 'x-aptos-ledger-version': ' 1000' },
    { 'x-aptos-ledger-version': '' },
    { 'x-aptos-ledger-version': '1000, 1000' }
  ]
  for (const change of bad) t.equal(readPosition(stamps(change)), undefined, JSON.stringify(change))
  t.equal(readPosition({ ...stamps(), 'x-aptos-chain-id': ['4', '4'] }), undefined, 'a repeated header')
  t.equal(readPosition({}), undefined)
})

t.test('a time beyond any clock is rejected, since no later true time could correct it', async t => {
  for (const time of ['9007199254740993', '18446744073709551615']) {
    t.equal(readPosition(stamps({ 'x-aptos-ledger-timestampusec': time })), undefined, time)
  }
  t.ok(readPosition(stamps({ 'x-aptos-ledger-timestampusec': '4102444800000000' })), 'the year 2100')
})

t.test('a response with two different cursors has no position', async t => {
  t.equal(readPosition({ ...stamps(), 'x-aptos-cursor': ['aa', 'bb'] }), undefined)
  t.ok(readPosition({ ...stamps(), 'x-aptos-cursor': 'aa' }))
})

t.test('two header families must agree, or the response has no position', async t => {
  const own = Object.fromEntries(
    Object.entries(stamps()).map(([name, value]) => [name.replace('x-aptos-', 'x-node-'), value])
  )
  t.equal(readPosition({ ...own, ...stamps() })?.family, 'x-aptos-')
  t.equal(readPosition({ ...stamps(), ...own })?.family, 'x-aptos-')
  for (
    const [name, value] of Object.entries({
      'x-node-ledger-version': '1001',
      'x-node-chain-id': '5',
      'x-node-ledger-timestampusec': '1',
      'x-node-epoch': '3',
      'x-node-block-height': '101',
      'x-node-ledger-oldest-version': '11',
      'x-node-oldest-block-height': '2'
    })
  ) t.equal(readPosition({ ...own, ...stamps(), [name]: value }), undefined, name)
  t.ok(readPosition({ 'x-other-ledger-version': '1', ...stamps() }), 'an incomplete family is ignored')
})

t.test('versions above 2^53 are exact', async t => {
  const position = readPosition(
    stamps({
      'x-aptos-ledger-version': '18446744073709551615',
      'x-aptos-ledger-oldest-version': '18446744073709551614'
    })
  )?.position
  t.equal(position?.head.version, 18446744073709551615n)
  t.same(position && positionHeaders(position, headerNamesOf('x-aptos-').position).slice(2, 6), [
    'x-aptos-ledger-version',
    '18446744073709551615',
    'x-aptos-ledger-oldest-version',
    '18446744073709551614'
  ])
})

t.test('position headers are written in the order that full nodes use', async t => {
  const read = readPosition(stamps())
  t.same(read && positionHeaders(read.position, headerNamesOf(read.family).position), Object.entries(stamps()).flat())
  t.notOk(
    read &&
      positionHeaders(
        { ...read.position, head: { ...read.position.head, epoch: undefined } },
        headerNamesOf('x-aptos-').position
      )
        .includes('x-aptos-epoch'),
    'the epoch only if the upstream sends it'
  )
})

const changedLine = fc.tuple(
  fc.constantFrom('x-aptos-', 'x-node-'),
  fc.constantFrom(...headerNamesOf('').position, ...Object.values(headerSuffix)),
  fc.constantFrom('4', '1000', '1001', 'x', ['4'], ['1000', '1000'], undefined)
)

t.test(`successive responses have the positions that each has by itself (${seedTitle})`, async t => {
  check(
    fc.property(fc.array(fc.tuple(fc.array(changedLine, { maxLength: 2 }), fc.boolean())), responses => {
      const reader = new PositionReader()
      return responses.every(([changes, hasTwoFamilies]) => {
        const own = Object.entries(stamps())
        const both = own.map(([name, value]) => [name.replace('x-aptos-', 'x-node-'), value])
        const lines = changes.map(([family, suffix, value]) => [family + suffix, value])
        const headers: ResponseHeaders = Object.fromEntries([...own, ...(hasTwoFamilies ? both : []), ...lines])
        t.same(reader.read(headers), readPosition(headers))
        return t.passing()
      })
    }),
    500
  )
})

t.test('responses with equal position lines share one position', async t => {
  const reader = new PositionReader()
  t.equal(reader.read({ ...stamps(), date: 'now' }), reader.read({ ...stamps(), date: 'later' }))
})

import fc from 'fast-check'
import t from 'tap'
import { needsLayout, tableKeyBytes } from '../../src/api/key-bytes.js'
import { structTagOf } from '../../src/api/state-key.js'
import { parseJson } from '../../sandbox/json.js'
import { trustedTypeTag } from '../../sandbox/type-tag.js'
import { keyBytes } from '../../sandbox/values.js'
import { check, seedTitle } from '../support/properties.js'
import { realChanges } from '../support/cases.js'

const hexOf = (type: string, value: unknown): string | undefined =>
  tableKeyBytes(structTagOf(type), value)?.toString('hex')

t.test('keys of public networks written as JSON have the bytes that the chain has', async t => {
  const counts = { exact: 0, struct: 0 }
  for (const { key, key_type: type, json_key: json } of realChanges) {
    if (type === undefined) continue
    const bytes = hexOf(type, json)
    if (bytes === undefined) counts.struct++
    else t.equal(`0x${bytes}`, key, type)
    t.equal(bytes === undefined, needsLayout(structTagOf(type)), type)
    if (bytes !== undefined) counts.exact++
  }
  t.same(counts, { exact: 52, struct: 47 })
})

t.test('the bytes of fixed types follow from type and value', async t => {
  const one = '1'.padStart(64, '0')
  const cases: Array<[type: string, value: unknown, bytes: string]> = [
    ['bool', true, '01'],
    ['bool', false, '00'],
    ['u8', 255, 'ff'],
    ['u16', 258, '0201'],
    ['u32', 1, '01000000'],
    ['u64', '18446744073709551615', 'ffffffffffffffff'],
    ['u128', '1', '01'.padEnd(32, '0')],
    ['u256', '256', '0001'.padEnd(64, '0')],
    ['i8', -1, 'ff'],
    ['i64', '-2', 'feffffffffffffff'],
    ['i256', '-1', 'f'.repeat(64)],
    ['address', '0x1', one],
    ['0x1::object::Object<0x1::a::B>', '0x1', one],
    ['0x1::string::String', 'ü', '02c3bc'],
    ['vector<u8>', '0x0102', '020102'],
    ['vector<u8>', '0x', '00'],
    ['vector<u16>', [1, 2], '0201000200'],
    ['vector<vector<u8>>', ['0x01', '0x'], '02010100'],
    ['vector<0x1::string::String>', [], '00'],
    ['vector<address>', ['0x1'], `01${one}`]
  ]
  for (const [type, value, bytes] of cases) t.equal(hexOf(type, value), bytes, `${type} ${JSON.stringify(value)}`)
})

t.test('a value that does not fit its type, or needs a layout, has no bytes', async t => {
  const cases: Array<[type: string, value: unknown]> = [
    ['bool', 'true'],
    ['u8', 256],
    ['u8', -1],
    ['u8', 1.5],
    ['u64', 'x'],
    ['u64', '18446744073709551616'],
    ['u64', 2 ** 60],
    ['i8', 128],
    ['i8', '-129'],
    ['signer', '0x1'],
    ['T0', '1'],
    ['address', 1],
    ['address', '0xzz'],
    ['0x1::string::String', 1],
    ['0x1::object::Object<u8>', {}],
    ['0x1::option::Option<u8>', { vec: [] }],
    ['0x2::string::String', 'x'],
    ['0x1::string::Text', 'x'],
    ['vector<u8>', '0x1'],
    ['vector<u8>', [1]],
    ['vector<u8>', 1],
    ['vector<u16>', '0x01'],
    ['vector<u16>', [1, 70_000]],
    ['vector<0x1::option::Option<u8>>', [{ vec: [] }]]
  ]
  for (const [type, value] of cases) t.equal(hexOf(type, value), undefined, `${type} ${JSON.stringify(value)}`)
})

t.test('JSON of structs depends on code, strings and objects do not', async t => {
  for (
    const type of ['u64', 'address', 'vector<vector<u8>>', '0x1::string::String', 'vector<0x1::object::Object<u8>>']
  ) {
    t.equal(needsLayout(structTagOf(type)), false, type)
  }
  for (const type of ['0x1::coin::Coin<u8>', 'vector<0x1::option::Option<u8>>', '0x1::string::Other']) {
    t.equal(needsLayout(structTagOf(type)), true, type)
  }
})

const integers = (bits: number, isSigned: boolean): fc.Arbitrary<bigint> =>
  isSigned
    ? fc.bigInt({ min: -(2n ** BigInt(bits - 1)), max: 2n ** BigInt(bits - 1) - 1n })
    : fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n })

/** Types with values as nodes take them. */
const typed = fc.letrec<{ one: { type: string, value: unknown }, many: { type: string, value: unknown } }>(tie => ({
  one: fc.oneof(
    { maxDepth: 2 },
    ...[8, 16, 32, 64, 128, 256].flatMap(bits =>
      [true, false].map(isSigned =>
        integers(bits, isSigned).map(value => ({
          type: `${isSigned ? 'i' : 'u'}${bits}`,
          value: bits > 32 ? String(value) : Number(value)
        }))
      )
    ),
    fc.boolean().map(value => ({ type: 'bool', value })),
    fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }).map(value => ({ type: 'address', value: `0x${value.toString(16)}` })),
    fc.string({ unit: 'binary' }).map(value => ({ type: '0x1::string::String', value })),
    fc.uint8Array({ maxLength: 200 }).map(bytes => ({
      type: 'vector<u8>',
      value: `0x${Buffer.from(bytes).toString('hex')}`
    })),
    tie('many')
  ),
  many: fc.tuple(tie('one'), fc.nat(3)).map(([{ type, value }, count]) =>
    type === 'u8'
      ? { type: 'vector<u8>', value: '0x07' }
      : { type: `vector<${type}>`, value: Array.from({ length: count }, () => value) }
  )
})).one

t.test(`random keys have the bytes that the sandbox gives them (${seedTitle})`, async t => {
  check(fc.property(typed, ({ type, value }) => {
    const expected = keyBytes(trustedTypeTag(type), parseJson(Buffer.from(JSON.stringify(value))))
    return hexOf(type, value) === expected.toString('hex')
  }))
  t.pass()
})

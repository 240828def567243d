import t from 'tap'
import { needsLayout, tableKeyBytes } from '../../src/api/dependencies.js'
import { structTagOf } from '../../src/api/state-key.js'
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

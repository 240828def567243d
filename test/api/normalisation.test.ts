import fc from 'fast-check'
import t from 'tap'
import { readAccept } from '../../src/api/accept.js'
import { readAddress, readTagAddress, shortAddress, shortAddressOf as canonicalAddress } from '../../src/api/address.js'
import { integerNormaliser, readU16, readU64 } from '../../src/api/integer.js'
import { isIdentifier, printTypeTag, readStructTag, readTypeTag } from '../../src/api/type-tag.js'
import { invalidTexts } from '../support/cases.js'
import { check, seedTitle } from '../support/properties.js'
import {
  address,
  addressStyle,
  canonicalTag,
  renderAddress,
  renderTag,
  struct,
  tag,
  tagStyle
} from '../support/value-variants.js'

const printed = (text: string): string | undefined => {
  const read = readTypeTag(text)
  return read && printTypeTag(read)
}

t.test(`all texts of one address normalise to one address (${seedTitle})`, async () => {
  check(
    fc.property(
      address,
      addressStyle,
      (digits, style) => readAddress(renderAddress(digits, style)) === digits.padStart(64, '0')
    )
  )
  check(fc.property(address, digits => shortAddress(digits.padStart(64, '0')) === `0x${digits}`))
})

t.test('a text that is not an address is rejected', async t => {
  for (const text of invalidTexts('address')) t.equal(readAddress(text), undefined, JSON.stringify(text))
  t.equal(readTagAddress('1'), undefined, 'inside a tag the prefix is required')
  t.equal(readTagAddress('0X1'), '1'.padStart(64, '0'), 'and may be upper case')
  t.equal(shortAddress('0'.repeat(64)), '0x0', 'zero has one digit')
})

t.test('a text that is not an unsigned integer in range is rejected', async t => {
  for (const text of [...invalidTexts('u64'), '9'.repeat(200_000)]) t.equal(readU64(text), undefined, text.slice(0, 30))
  t.equal(readU64('0'.repeat(200_000) + '7'), 7n, 'with any number of leading zeros')
  t.equal(readU16('65535'), 65535n)
  t.equal(readU16('65536'), undefined)
})

t.test('texts of one signed integer normalise to one, and out-of-range texts stay unchanged', async t => {
  for (const bits of [64n, 128n, 256n]) {
    const spell = integerNormaliser(`i${bits}`)
    const power = 2n ** (bits - 1n)
    for (
      const [text, one] of [[`-0${power}`, `-${power}`], ['-09', '-9'], ['+127', '127'], ['-0', '0'], ['-00', '0'], [
        '+00',
        '0'
      ]] as const
    ) t.equal(spell?.(text), one, text)
    for (const text of [`-0${power + 1n}`, `0${power}`, '-+1', '--1', '+-1', '-', '']) {
      t.equal(spell?.(text), text, text)
    }
  }
})

t.test(`the canonical address of a table key is the short form of any text (${seedTitle})`, async t => {
  check(
    fc.property(
      address,
      addressStyle,
      (digits, style) => canonicalAddress(renderAddress(digits, style)) === `0x${digits}`
    )
  )
  for (const text of ['', '0x', '0X1', 'x1', '0xg', ' 1', '0x' + '1'.repeat(65), '0'.repeat(65)]) {
    t.equal(canonicalAddress(text), text)
  }
})

t.test(`all texts of one type tag print alike (${seedTitle})`, async () => {
  check(fc.property(tag, tagStyle, (tree, style) => printed(renderTag(tree, style)) === canonicalTag(tree)), 500)
})

t.test(`a struct tag is a type tag that is a struct (${seedTitle})`, async t => {
  check(fc.property(struct, tagStyle, (tree, style) => readStructTag(renderTag(tree, style)) !== undefined))
  t.equal(readStructTag('u64'), undefined)
  t.equal(readStructTag('vector<0x1::a::B>'), undefined)
})

t.test('a text that is not a type tag is rejected', async t => {
  for (const text of invalidTexts('type tag')) t.equal(printed(text), undefined, JSON.stringify(text))
})

t.test('an unknown primitive name stays as it is, and the upstream decides', async t => {
  t.equal(printed('u512'), 'u512')
  t.equal(printed(' signer '), 'signer')
})

t.test('a type tag nests at most eight levels', async t => {
  const nested = (levels: number): string => 'vector<'.repeat(levels - 1) + 'u8' + '>'.repeat(levels - 1)
  t.equal(printed(nested(8)), nested(8))
  t.equal(printed(nested(9)), undefined)
  t.equal(printed('vector<'.repeat(100_000)), undefined, 'at any depth')
})

t.test('identifiers follow the rules of Move', async t => {
  for (const text of ['a', 'A0_$', '_a', '$_', '__']) t.ok(isIdentifier(text), text)
  for (const text of ['', '_', '$', '0a', 'a-b', 'a b', 'é']) t.notOk(isIdentifier(text), text)
})

t.test('varve reads Accept as a full node does', async t => {
  const cases: [string | undefined, 'json' | 'bcs'][] = [
    [undefined, 'json'],
    ['', 'json'],
    ['*/*', 'json'],
    ['*/*;q=0.8', 'json'],
    ['text/html,application/xhtml+xml,*/*;q=0.8', 'json'],
    ['application/json', 'json'],
    ['application/x-bcs', 'bcs'],
    ['APPLICATION/X-BCS', 'bcs'],
    ['application/json, application/x-bcs', 'json'],
    ['application/x-bcs, application/json', 'bcs'],
    ['application/x-bcs;q=0.9', 'json'],
    ['application/x-bcs;q=1', 'json'],
    ['application/x-bcs; charset=utf-8', 'json'],
    ['application/json;q=0.1, application/x-bcs', 'bcs'],
    ['application/x-bcs;q=0, application/json', 'json'],
    ['garbage, application/x-bcs', 'bcs'],
    ['application/*', 'json'],
    ['application/x-bcs,', 'bcs']
  ]
  for (const [header, accept] of cases) t.equal(readAccept(header), accept, JSON.stringify(header))
})

t.test('only spaces and tabs around a media type are trimmed, no other Unicode blanks', async t => {
  for (const around of ['\t', ' \t ']) {
    t.equal(
      readAccept(`text/html,${around}application/x-bcs${around}, application/json`),
      'bcs',
      JSON.stringify(around)
    )
  }
  for (const around of ['\u00a0', '\u000b', '\ufeff']) {
    t.equal(readAccept(`application/x-bcs${around}`), 'json', JSON.stringify(around))
  }
  t.equal(readAccept(`x${' '.repeat(1_000_000)}y, application/x-bcs`), 'bcs', 'a million of them take linear time')
})

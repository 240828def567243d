import fc from 'fast-check'
import t from 'tap'
import { type JsonObject, readObject } from '../../src/api/strict-json-object.js'
import { canonicalKey } from '../../src/api/table-key.js'
import { readTypeTag, type TypeTag } from '../../src/api/type-tag.js'
import { check, seedTitle } from '../support/properties.js'

const read = (text: string): JsonObject | undefined => readObject(Buffer.from(text))

function typeOf (text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) throw new Error(`${text} is no type`)
  return tag
}

const piece = fc.constantFrom(
  ...'{ } [ ] : , "a" "\\u00e9\\n" "\\ud83d\\ude00" 1 -0 01 - 1.0e+5 1. 1e .5 true nul null " \\ \\u12 "k": é //'.split(
    ' '
  ),
  ...[' ', '\n', '\u00a0', '\ufeff', '\b', '"x y"']
)
const soup = fc.array(piece, { maxLength: 14 }).map(pieces => `{${pieces.join('')}}`)
const valid = fc.json({ maxDepth: 4 }).map(json => `{"key" : ${json},\t"more":[1, 2.50]}`)
const spoilt = fc.tuple(valid, fc.nat(), fc.nat(2), piece).map(([text, place, cut, inserted]) => {
  const at = place % (text.length + 1)
  return text.slice(0, at) + inserted + text.slice(at + cut)
})

/** Decides with JSON.parse if a text is one object without repeated members: printed again, it has as many names. */
function isObjectOnce (text: string): boolean {
  try {
    const value = JSON.parse(text) as unknown
    const names = (json: string): number => [...json.replace(/"(?:[^"\\]|\\.)*"/g, '""').matchAll(/:/g)].length
    return typeof value === 'object' && value !== null && !Array.isArray(value) &&
      names(text) === names(JSON.stringify(value))
  } catch {
    return false
  }
}

t.test(`one JSON object is read and nothing else, as by another strict parser (${seedTitle})`, async () => {
  check(fc.property(fc.oneof(valid, soup, spoilt), text => (read(text) !== undefined) === isObjectOnce(text)), 5000)
})

t.test('lone surrogates, invalid UTF-8, repeated members and 128 levels are rejected', async t => {
  const nest = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
  t.ok(read(nest(127)))
  t.equal(read(`${'{"a":'.repeat(128)}1${'}'.repeat(128)}`), undefined, 'objects nest no deeper than arrays')
  for (
    const text of [
      nest(128),
      '{"a":1,"a":1}',
      '{"a":1,"\\u0061":2}',
      '{"x":[{"":1,"":1}]}',
      '{"__proto__":1,"__proto__":1}'
    ]
  ) t.equal(read(text), undefined, text.slice(0, 40))
  for (
    const text of [
      '"\\ud800"',
      '"\\udc00"',
      '"\\ud800x"',
      '"\\ud800\\u0041"',
      '"\\udc00\\ud800"',
      '"\\ud800\\ud800\\udc00"'
    ]
  ) {
    t.equal(read(`{"a":${text}}`), undefined, text)
    t.equal(read(`{${text}:1}`), undefined, `${text} as a name`)
  }
  t.ok(read('{"\\ud83d\\ude00":"\\uD83D\\uDE00"}'))
  for (const bytes of ['7b2261223a22ff227d', '7b2261223a22eda080227d', 'efbbbf7b7d', '7b2261223a22c3227d']) {
    t.equal(readObject(Buffer.from(bytes, 'hex')), undefined, bytes)
  }
})

t.test('the text of a member is the client\'s text without blanks between tokens', async t => {
  const object = read(
    ' { "a" : [ 1.0 , 18446744073709551615 , "x \\" y" , { "b\\u0062" : -0 } ] , "\\u0063" : "\\u0041é" , ' +
      '"d" : "plain" } '
  )
  t.equal(object?.hasOnly(['a', 'c', 'd', 'e']), true)
  t.equal(object?.hasOnly(['a', 'c']), false)
  t.equal(object?.textOf('a'), '[1.0,18446744073709551615,"x \\" y",{"b\\u0062":-0}]')
  t.equal(object?.textOf('c'), '"\\u0041é"')
  t.same([
    object?.stringOf('c'),
    object?.stringOf('d'),
    object?.stringOf('a'),
    object?.stringOf('e'),
    object?.textOf('e')
  ], ['Aé', 'plain', undefined, undefined, undefined])
})

t.test('texts that mean one table key have one canonical text, others differ', async t => {
  const same: Array<[type: string, one: string, other: string]> = [
    ['vector<u64>', '["1","2",7]', '["01","+2",7]'],
    ['vector<vector<address>>', '[["0x1"],[]]', '[["0x001"],[]]'],
    ['vector<address>', '["0xab"]', '["00AB"]'],
    ['0x1::object::Object<u8>', '"0x1"', '"\\u0031"'],
    ['vector<u8>', '"0xab"', '"AB"'],
    ['i128', '"-5"', '"-05"'],
    ['0x1::a::B', '{"a":{"x":1,"y":[{"c":1,"d":2}]},"b":"/"}', '{"b":"\\/","a":{"y":[{"d":2,"c":1}],"x":1}}'],
    ['0x1::a::B', '"\\u0000\\"é"', '"\\u0000\\u0022\\u00e9"'],
    ['u8', '{"a":1,"a_":2,"aa":3}', '{"aa":3,"a_":2,"\\u0061":1}']
  ]
  for (const [type, one, other] of same) {
    t.equal(canonicalKey(typeOf(type), other), canonicalKey(typeOf(type), one), `${type} ${other}`)
    t.not(other, one)
  }
  const different: Array<[type: string, one: string, other: string]> = [
    ['u8', '1', '1.0'],
    ['0x1::a::B', '{"a":1}', '{"a":"1"}'],
    ['0x1::a::B', '["a,b"]', '["a","b"]'],
    ['0x1::a::B', '"01"', '"1"'],
    ['vector<u64>', '["-1"]', '["1"]'],
    ['vector<address>', '["0X1"]', '["0x1"]']
  ]
  for (const [type, one, other] of different) {
    t.not(canonicalKey(typeOf(type), other), canonicalKey(typeOf(type), one), `${type} ${other}`)
  }
})

t.test('a key object of over 32 members has them in the client\'s order, with canonical values', async t => {
  const members = Array.from({ length: 40 }, (_, at) => `"m${40 - at}":"\\u0041"`)
  t.equal(
    canonicalKey(typeOf('0x1::a::B'), `{${members.join(',')}}`),
    `{${members.join(',').replaceAll('\\u0041', 'A')}}`
  )
  t.equal(
    canonicalKey(typeOf('0x1::a::B'), `{${members.slice(0, 32).join(',')}}`),
    canonicalKey(typeOf('0x1::a::B'), `{${members.slice(0, 32).reverse().join(',')}}`)
  )
})

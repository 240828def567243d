import fc from 'fast-check'
import { type BodyKind, type Endpoint, endpoints, type PathParameter } from '../../src/api/endpoints.js'
import {
  address,
  addressStyle,
  integerStyle,
  canonicalTag,
  renderAddress,
  renderInteger,
  renderTag,
  struct,
  tag,
  tagStyle
} from './value-variants.js'
import { type TestResponse } from './client.js'

/** A request variant, valid or not. */
export interface RequestVariant {
  readonly method: 'GET' | 'POST'
  readonly target: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: string | undefined
}

/** A value as plainly as can be, and as a client may write it. */
type Written = readonly [plain: string, written: string]

const same = (...texts: string[]): fc.Arbitrary<Written> => fc.constantFrom(...texts).map(text => [text, text] as const)
const integers = (value: fc.Arbitrary<bigint>): fc.Arbitrary<Written> =>
  fc.tuple(value, integerStyle).map(([number, style]) => [String(number), renderInteger(number, style)] as const)

// Versions mostly inside the sandbox's first thousands, some below and some above.
const versions = integers(
  fc.oneof({ weight: 8, arbitrary: fc.bigInt(1500n, 15_000n) }, {
    weight: 1,
    arbitrary: fc.bigInt(0n, 2n ** 64n - 1n)
  })
)
const addresses = fc.tuple(
  fc.oneof({ weight: 3, arbitrary: fc.constantFrom('1', '42', 'cafe') }, { weight: 1, arbitrary: address }),
  addressStyle
).map(([digits, style]) => [`0x${digits}`, renderAddress(digits, style)] as const)
const structs = fc.oneof(
  fc.constantFrom<Written>(
    ['0x1::block::BlockResource', ' 0x1 :: block :: BlockResource '],
    ['0x1::aptos_coin::AptosCoin', '0X1::aptos_coin::AptosCoin'],
    ['0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', '0x01::coin::CoinStore<0X1::aptos_coin::AptosCoin>']
  ),
  fc.tuple(struct, tagStyle).map(([tree, style]) => [canonicalTag(tree), renderTag(tree, style)] as const)
)
const tags = fc.tuple(tag, tagStyle).map(([tree, style]) => [canonicalTag(tree), renderTag(tree, style)] as const)
const modulesCursor = `00${'1'.padStart(64, '0')}2a00${'1'.padStart(64, '0')}08706f6f6c5f753634`

/** Valid values of each parameter. */
const values: Readonly<Record<string, fc.Arbitrary<Written>>> = {
  address: addresses,
  asset_type: fc.oneof(structs, addresses),
  block_height: integers(fc.oneof(fc.bigInt(400n, 470n), fc.bigInt(0n, 2n ** 64n - 1n))),
  creation_number: integers(fc.bigInt(2n, 3n)),
  event_handle: structs,
  field_name: same('new_block_events', 'deposit_events', 'withdraw_events', 'nothing'),
  ledger_version: versions,
  limit: integers(fc.bigInt(0n, 65_535n)),
  module_name: same('coin', 'Coin', 'game', 'menu'),
  resource_type: structs,
  start_version: versions,
  end_version: versions,
  start: fc.oneof(integers(fc.bigInt(0n, 1200n)), versions),
  table_handle: addresses,
  txn_hash: fc.tuple(fc.bigInt(0n, 2n ** 256n - 1n), fc.constantFrom('', '0x'), fc.boolean()).map(
    ([number, prefix, isUpper]) => {
      const hash = number.toString(16).padStart(64, '0')
      return [`0x${hash}`, prefix + (isUpper ? hash.toUpperCase() : hash)] as const
    }
  ),
  txn_version: versions,
  version: versions,
  with_transactions: same('true', 'false')
}
const cursors = fc.constantFrom<Written>(['ab', 'AB'], ['00ab', '00aB'], [modulesCursor, modulesCursor.toUpperCase()])
// Texts that are a valid value of some parameters, and of others none.
const odd = same(
  ...' zz _ 1a True 0 +3 07 -1 65536 70000 u64 0x 0x1::a 0X00 0X1 a%62 deposit%5Fevents 18446744073709551616'.split(' ')
)

const valuesOf = (name: string, isCursor: boolean): fc.Arbitrary<Written> => {
  const found = isCursor ? cursors : values[name]
  if (found === undefined) throw new Error(`test/support/request-variants.ts has no values of ${name}`)
  return found
}

// Table keys of a type as nodes read them, or do not.
const keyTexts: Readonly<Record<string, readonly string[]>> = {
  u8: ['1', '1.0', '-0', '1e1', '300', '"1"', '07'],
  i64: ['"-5"', '"-05"', '"5"', '"+5"'],
  i256: ['"-5"', '"-05"', '"-0"', '-5', `"-${2n ** 255n}"`],
  bool: ['true', ' false ', '"true"'],
  'vector<u8>': ['"0xAB"', '"ab"', '"0xabc"', '"0Xab"', '[171]', '""', '"0x"'],
  'vector<u64>': ['[ "1" , "02" ]', '["1","2"]', '"1"'],
  '0x1::string::String': ['"alice"', '"bob"', '"\\u0061lice"', '"Alice"', '"\\ud800"', '"é"', '7'],
  '0x1::object::Object<0x1::a::B>': ['"0x1"', '"1"', '"01"', '"0X1"', '{"inner":"0x1"}'],
  '0x42::game::Cell': [
    '{"x":"1","y":"2","owner":"0x1"}',
    '{ "owner" : "1", "y":"02", "x":"1" }',
    '{"x":"1","y":"2","owner":"0x1","more":1}',
    '{"x":"1","y":"2"}',
    '{"x":1,"y":"2","owner":"0x1"}',
    '[]'
  ]
}
const typedKeys = fc.oneof(
  fc.tuple(same('u64', 'u128', 'u256'), integers(fc.bigInt(0n, 120n)).map(([, text]) => JSON.stringify(text))),
  fc.tuple(same('address'), addresses.map(([, text]) => JSON.stringify(text))),
  ...Object.entries(keyTexts).map(([type, texts]) => fc.tuple(same(type), fc.constantFrom(...texts))),
  fc.tuple(tags, fc.constantFrom('1', '"1"', '{}', '[]', 'null'))
)
const functions = fc.constantFrom<Written>(
  ['0x1::block::get_current_block_height', '0x0001::block::get_current_block_height'],
  ['0x1::coin::balance', '0x01::coin::balance'],
  ...['0x1::coin', '0x1::coin::balance::x', '0x1:: coin::balance', '0x1::none::f', ''].map(text =>
    [text, text] as const
  )
)
const typeArguments = fc.oneof(
  fc.array(structs, { maxLength: 1 }).map(list => [0, 1].map(at => JSON.stringify(list.map(pair => pair[at])))),
  same('[7]', '{}', '["u64"]', '["x y"]', '["no_such"]')
).map(([plain = '', written = '']) => [plain, written] as const)
const callArguments = same('[]', '["0xcafe"]', '["cafe"]', '["0xzz"]', '[1.0]', '[{"a":1,"a":2}]', '{}', 'null')
const rawKeys = ['0x0700000000000000', '0700000000000000', '0x07000000000000', '0X07', '0xabc', '', '0x', '0xAB']

const itemOf5eed = `01${'5eed'.padStart(64, '0')}`
// Two paths, two items, a raw key; then bytes that are none.
const stateKeys = [
  `00${'1'.padStart(64, '0')}3601${'1'.padStart(64, '0')}05626c6f636b0d426c6f636b5265736f7572636500`,
  modulesCursor,
  `${itemOf5eed}080700000000000000`,
  `0x${itemOf5eed.toUpperCase()}01FF`,
  '0x0202abcd',
  ...[
    '',
    '0x',
    '03',
    '01',
    `${itemOf5eed}02ff`,
    `${itemOf5eed}0800`,
    `${itemOf5eed}8100`,
    '0x0202abcd00',
    '0202ab',
    'zz'
  ]
]

const json = ([plain, written]: Written): Written => [JSON.stringify(plain), JSON.stringify(written)]

/** Members of each kind of body, as JSON. */
const members: Readonly<Record<BodyKind, fc.Arbitrary<Record<string, Written>>>> = {
  table_key: fc.tuple(typedKeys, fc.oneof(same('u64', 'address', 'u8', 'vector<u8>', 'bool', 'u512'), tags)).map((
    [[type, key], value]
  ) => ({ key_type: json(type), value_type: json(value), key: [key, key] })),
  raw_key: fc.oneof(same(...rawKeys).map(json), same('7', 'null')).map(key => ({ key })),
  state_key: same(...stateKeys).map(key => ({ key: json(key) })),
  view: fc.tuple(functions, typeArguments, callArguments).map(([name, types, args]) => ({
    function: json(name),
    type_arguments: types,
    arguments: args
  }))
}

const bodyOf = (kind: BodyKind): fc.Arbitrary<Written> =>
  fc.tuple(members[kind], fc.boolean(), fc.boolean()).map(([all, isTurned, isSpaced]) => {
    const plain = Object.entries(all).map(([name, [text]]) => `"${name}":${text}`)
    const written = Object.entries(all).map(([name, [, text]]) => `"${name}"${isSpaced ? ' : ' : ':'}${text}`)
    if (isSpaced) written.push('"junk" : [1, {"key":2}]')
    if (isTurned) written.reverse()
    return [`{${plain.join()}}`, `{${written.join(isSpaced ? ' ,\n ' : ',')}}`] as const
  })

const inHex = (text: string): string =>
  [...Buffer.from(text)].map(byte => `%${byte.toString(16).padStart(2, '0')}`).join('')
const encodings = fc.array(fc.constantFrom(encodeURIComponent, inHex), { minLength: 1, maxLength: 2 })

/** Draws a part of the path, encoded as often as nodes decode it at most. */
const segmentOf = ({ name, decodings }: PathParameter, isOdd: boolean): fc.Arbitrary<Written> =>
  fc.tuple(isOdd ? oddly(valuesOf(name, false)) : valuesOf(name, false), encodings).map(([[plain, written], steps]) =>
    [
      encodeURIComponent(plain),
      steps.slice(0, decodings).reduce((text, encode) => encode(text), written)
    ] as const
  )

const oddly = (valid: fc.Arbitrary<Written>): fc.Arbitrary<Written> =>
  fc.oneof({ weight: 12, arbitrary: valid }, { weight: 1, arbitrary: odd })

const accepts = fc.constantFrom(
  undefined,
  '*/*',
  'application/json',
  'application/x-bcs',
  'application/x-bcs;q=1',
  'APPLICATION/X-BCS, application/json',
  'text/html, application/json;q=0.9',
  'application/json, application/x-bcs'
)
const bodyTypes = ['application/json', 'application/json; charset=utf-8', 'application/x+json']

/** Draws a request of an endpoint, and the same in another variant; an odd variant may have another value. */
function requestsOf (
  { method, path, query, takesBody, takesCursor }: Endpoint,
  isOdd = false
): fc.Arbitrary<readonly [plain: RequestVariant, written: RequestVariant]> {
  const segments = path.map(part => typeof part === 'string' ? same(part) : segmentOf(part, isOdd))
  const parameters = Object.keys(query).map(name => {
    const valid = valuesOf(name, takesCursor && name === 'start')
    return fc.option(fc.tuple(isOdd ? oddly(valid) : valid, fc.constantFrom(encodeURIComponent, inHex))).map(drawn => {
      if (drawn === null) return undefined
      const [[plain, written], encode] = drawn
      return [`${name}=${encodeURIComponent(plain)}`, `${name}=${encode(written)}`] as const
    })
  })
  return fc.record({
    segments: fc.tuple(...segments),
    parameters: fc.tuple(...parameters),
    isTurned: fc.boolean(),
    unknown: fc.constantFrom(undefined, 'x=y', 'Ledger_Version=5', 'ledger_version[]=1', '__proto__=1', 'a=1&a=2'),
    accept: accepts,
    contentType: fc.constantFrom(...bodyTypes, ...bodyTypes, ...isOdd ? ['text/plain', undefined] : []),
    body: takesBody === undefined ? fc.constant(undefined) : bodyOf(takesBody)
  }).map(drawn => {
    const variantAt = (at: 0 | 1): RequestVariant => {
      const given = [...drawn.parameters.map(one => one?.[at]), at === 1 ? drawn.unknown : undefined].filter(
        text => text !== undefined
      )
      if (at === 1 && drawn.isTurned) given.reverse()
      return {
        method,
        target: `/${drawn.segments.map(one => one[at]).join('/')}${given.length === 0 ? '' : `?${given.join('&')}`}`,
        accept: drawn.accept,
        contentType: takesBody === undefined ? undefined : at === 0 ? bodyTypes[0] : drawn.contentType,
        body: drawn.body?.[at]
      }
    }
    return [variantAt(0), variantAt(1)] as const
  })
}

/** Draws two variants of one read of an endpoint. */
export const sameRequests = (
  endpoint: Endpoint
): fc.Arbitrary<readonly [plain: RequestVariant, written: RequestVariant]> => requestsOf(endpoint)

const nasty = fc.constantFrom(' ', ...'?? % %2F %25 %00 + / ? & = # < > ` . .. ; , : " { 0 x X %C0 é | ^'.split(' '))

/** Corrupts one place of a target. */
const corruptTarget = (requests: fc.Arbitrary<RequestVariant>): fc.Arbitrary<RequestVariant> =>
  fc.tuple(requests, fc.nat(), fc.nat(2), nasty).map(([request, place, cut, inserted]) => {
    const at = 4 + place % Math.max(1, request.target.length - 3)
    // Removes blanks and raw non-Latin letters, which would make no valid request line.
    return {
      ...request,
      target: request.target.slice(0, at) + (inserted === ' ' ? '%20' : inserted) + request.target.slice(at + cut)
    }
  })

/** Corrupts one place of a body. */
const corruptBody = (requests: fc.Arbitrary<RequestVariant>): fc.Arbitrary<RequestVariant> =>
  fc.tuple(
    requests,
    fc.nat(),
    fc.nat(2),
    fc.constantFrom('', ' ', '"', ',', '}', ']', '0', '1.', '\\', '\n', '\u00a0', '\ufeff', ':', '-')
  ).map(([request, place, cut, inserted]) => {
    const text = request.body ?? ''
    const at = place % (text.length + 1)
    return { ...request, body: text.slice(0, at) + inserted + text.slice(at + cut) }
  })

// A node returns the members of its info in changing order, so two responses cannot be compared.
const compared = endpoints.filter(({ name }) => name !== 'info')
const drawnOf = (some: readonly Endpoint[]): fc.Arbitrary<RequestVariant> =>
  fc.oneof(...some.map(endpoint => requestsOf(endpoint, true))).map(([, written]) => written)

/** Requests of every endpoint, mostly valid. */
export const requestVariant = fc.oneof({ weight: 4, arbitrary: drawnOf(compared) }, {
  weight: 2,
  arbitrary: corruptTarget(drawnOf(compared))
}, {
  weight: 1,
  arbitrary: corruptBody(drawnOf(compared.filter(({ takesBody }) => takesBody !== undefined)))
})

/** True if a node rejects the request itself before it reads its ledger. */
export function isRejectedRequest ({ status, headers, body }: TestResponse): boolean {
  // Raw table items are in BCS alone; a node says so with its position.
  if (status === 403) return true
  if (headers['x-aptos-ledger-version'] !== undefined) return false
  return status === 405 || status === 415 || status === 411 ||
    (status === 404 && body.includes('"web_framework_error"')) || status === 400
}

const onceOnly = new Set(['ledger_version', 'start', 'limit', 'with_transactions', 'start_version', 'end_version'])

/**
 * True if varve rejects on purpose what a node may accept: a parameter given twice, or a query encoded twice
 * (docs/node-behaviour.md, "Percent-encoding").
 */
export function isStricterThanUpstream ({ target, body }: RequestVariant): boolean {
  if (/\?.*%25/.test(target)) return true
  const names = [...new URLSearchParams(`?${target.slice(target.indexOf('?') + 1)}`).keys()].filter(name =>
    onceOnly.has(name)
  )
  return new Set(names).size < names.length || hasRepeatedMember(body ?? '')
}

function hasRepeatedMember (text: string): boolean {
  try {
    const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1
    return membersOf(JSON.parse(text)) < colons
  } catch {
    return false
  }
}

function membersOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const items = Object.values(value)
  return items.reduce<number>((sum, item) => sum + membersOf(item), Array.isArray(value) ? 0 : items.length)
}

/** True if varve may reject what a node answers so, since varve is stricter or the node rejects it first otherwise. */
export function mayDiffer (variant: RequestVariant, got: TestResponse): boolean {
  // A node resolves the version before it reads a view's types.
  const isView = variant.target.startsWith('/v1/view')
  // A node calls a malformed state key its own error, after it has resolved the version.
  const isStateValue = variant.target.startsWith('/v1/experimental')
  return isRejectedRequest(got) || isStricterThanUpstream(variant) ||
    (isView && [400, 404, 410].includes(got.status)) || (isStateValue && [404, 410, 500].includes(got.status))
}

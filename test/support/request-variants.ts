import fc from 'fast-check'
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

/** Accept headers of clients. */
export const accept = fc.constantFrom(
  undefined,
  '*/*',
  'application/json',
  'application/x-bcs',
  'application/x-bcs;q=1',
  'APPLICATION/X-BCS, application/json',
  'text/html, application/json;q=0.9',
  'application/json, application/x-bcs'
)
/** Versions mostly inside the sandbox's first thousands, some below and some above. */
export const version = fc.oneof({ weight: 8, arbitrary: fc.bigInt(1500n, 15_000n) }, {
  weight: 1,
  arbitrary: fc.bigInt(0n, 2n ** 64n)
})
const knownAddress = fc.oneof({ weight: 3, arbitrary: fc.constantFrom('1', '42', 'cafe') }, {
  weight: 1,
  arbitrary: address
})

/** A query of these parameters in any order, perhaps with one that nodes ignore. */
export const parameters = (...given: fc.Arbitrary<string | undefined>[]): fc.Arbitrary<string> =>
  fc.tuple(
    fc.tuple(...given),
    fc.boolean(),
    fc.constantFrom(undefined, 'x=y', 'Ledger_Version=5', 'ledger_version[]=1', '__proto__=1')
  ).map(([list, isTurned, unknown]) => {
    const all = [...list, unknown].filter(text => text !== undefined)
    if (isTurned) all.reverse()
    return all.length === 0 ? '' : `?${all.join('&')}`
  })

/** A numeric parameter, or none. */
export const integer = (name: string, value: fc.Arbitrary<bigint>): fc.Arbitrary<string | undefined> =>
  fc.option(
    fc.tuple(value, integerStyle, fc.boolean()).map(([number, style, isRaw]) => {
      const text = renderInteger(number, style)
      return `${name}=${isRaw ? text : encodeURIComponent(text)}`
    }),
    { nil: undefined }
  )

/** An account in any form. */
export const accountVariant = fc.tuple(knownAddress, addressStyle).map(([digits, style]) =>
  renderAddress(digits, style)
)
/** Limit of a page. */
export const limit = integer('limit', fc.bigInt(0n, 70_000n))
/** Cursor of a listing. */
export const cursor = fc.option(
  fc.constantFrom(
    'zz',
    '0x00',
    'ab',
    'AB0',
    '',
    `00${'1'.padStart(64, '0')}2a00${'1'.padStart(64, '0')}08706f6f6c5f753634`,
    `00${'1'.padStart(64, '0').toUpperCase()}2A00${'1'.padStart(64, '0')}08706F6F6C5F753634`
  ).map(text => `start=${text}`),
  { nil: undefined }
)
/** A GET with headers. */
export const getRequest = (target: fc.Arbitrary<string>): fc.Arbitrary<RequestVariant> =>
  fc.tuple(target, accept).map(([text, type]) => ({
    method: 'GET',
    target: text,
    accept: type,
    contentType: undefined,
    body: undefined
  }))

const modules = getRequest(
  fc.tuple(accountVariant, parameters(integer('ledger_version', version), limit, cursor)).map(([account, query]) =>
    `/v1/accounts/${account}/modules${query}`
  )
)

/** A struct tag in any form. */
export const handles = fc.oneof(
  fc.constantFrom(
    '0x1::block::BlockResource',
    '0x01::coin::CoinStore<0X1::aptos_coin::AptosCoin>',
    ' 0x1 :: block :: BlockResource '
  ),
  fc.tuple(struct, tagStyle).map(([tree, style]) => renderTag(tree, style))
)
const events = getRequest(
  fc.tuple(
    accountVariant,
    handles,
    fc.boolean(),
    fc.constantFrom('new_block_events', 'deposit_events', 'withdraw_events', 'nothing', '_', 'deposit%5Fevents'),
    parameters(integer('start', fc.bigInt(0n, 1200n)), limit)
  )
    .map(([account, handle, isTwice, field, query]) => {
      const once = encodeURIComponent(handle)
      return `/v1/accounts/${account}/events/${isTwice ? encodeURIComponent(once) : once}/${field}${query}`
    })
)

const blocks = getRequest(
  fc.tuple(
    version,
    integerStyle,
    fc.constantFrom(
      '',
      '?with_transactions=true',
      '?with_transactions=false',
      '?with_transactions=True',
      '?with_transactions='
    ),
    fc.boolean()
  )
    .map(([number, style, query, isTwice]) => {
      const once = encodeURIComponent(renderInteger(number, style))
      return `/v1/blocks/by_version/${isTwice ? encodeURIComponent(once) : once}${query}`
    })
)

const plain = getRequest(fc.constantFrom('/v1/estimate_gas_price', '/v1/estimate_gas_price?x=1'))

/** A table key of a type, in any form. */
const typedKey = fc.oneof(
  fc.tuple(fc.constantFrom('u64', 'u128', 'u256', 'i64'), fc.bigInt(-5n, 120n), integerStyle).map((
    [type, value, style]
  ) => [type, JSON.stringify(value < 0n ? String(value) : renderInteger(value, style))]),
  fc.tuple(fc.constantFrom('u8', 'u16', 'u32'), fc.constantFrom('1', '1.0', '-0', '1e1', '300', '"1"', '07')),
  fc.tuple(knownAddress, addressStyle).map((
    [digits, style]
  ) => ['address', JSON.stringify(renderAddress(digits, style))]),
  fc.tuple(
    fc.constantFrom('vector<u8>', 'vector< u8 >'),
    fc.constantFrom('"0xAB"', '"ab"', '"0xabc"', '"0Xab"', '[171]', '""', '"0x"')
  ),
  fc.constantFrom(
    ['vector<u64>', '[ "1" , "02" ]'],
    ['vector<u64>', '["1","2"]'],
    ['vector<u64>', '"1"'],
    ['bool', 'true'],
    ['bool', ' false '],
    ['bool', '"true"']
  ),
  fc.tuple(
    fc.constantFrom('0x1::string::String'),
    fc.constantFrom('"alice"', '"bob"', '"\\u0061lice"', '"Alice"', '"\\ud800"', '"é"', '7')
  ),
  fc.tuple(
    fc.constantFrom('0x1::object::Object<0x1::a::B>'),
    fc.constantFrom('"0x1"', '"1"', '"01"', '"0X1"', '{"inner":"0x1"}')
  ),
  fc.tuple(
    fc.constantFrom('0x42::game::Cell'),
    fc.constantFrom(
      '{"x":"1","y":"2","owner":"0x1"}',
      '{ "owner" : "1", "y":"02", "x":"1" }',
      '{"x":"1","y":"2","owner":"0x1","more":1}',
      '{"x":"1","y":"2"}',
      '{"x":1,"y":"2","owner":"0x1"}',
      '[]'
    )
  ),
  fc.tuple(
    fc.tuple(tag, tagStyle).map(([tree, style]) => renderTag(tree, style)),
    fc.constantFrom('1', '"1"', '{}', '[]', 'null')
  )
).map(([type = '', key = '']) => ({ type, key }))

const tables = fc.tuple(
  accountVariant,
  typedKey,
  fc.oneof(
    fc.constantFrom('u64', 'address', 'u8', '0x1::string::String', 'vector<u8>', 'bool', 'u512'),
    fc.tuple(tag, tagStyle).map(([tree, style]) => canonicalTag(tree) === '' ? '' : renderTag(tree, style))
  ),
  parameters(integer('ledger_version', version)),
  accept,
  fc.constantFrom('application/json', 'application/json; charset=utf-8', 'application/x+json', 'text/plain', undefined),
  fc.integer({ min: 0, max: 5 })
)
  .map(([handle, { type, key }, valueType, query, type2, contentType, order]): RequestVariant => {
    const members = [`"key_type": ${JSON.stringify(type)}`, `"value_type":${JSON.stringify(valueType)}`, `"key":${key}`]
    if (order > 3) members.push('"junk" : [1, {"key":2}]')
    if (order % 2 === 1) members.reverse()
    return {
      method: 'POST',
      target: `/v1/tables/${handle}/item${query}`,
      accept: type2,
      contentType,
      body: `{${members.join(' , ')}}`
    }
  })

const nasty = fc.constantFrom(' ', ...'?? % %2F %25 %00 + / ? & = # < > ` . .. ; , : " { 0 x X %C0 é | ^'.split(' '))

/** Corrupts one place of a target. */
export const corruptTarget = (requests: fc.Arbitrary<RequestVariant>): fc.Arbitrary<RequestVariant> =>
  fc.tuple(requests, fc.nat(), fc.nat(2), nasty).map(([request, place, cut, inserted]) => {
    const at = 4 + place % Math.max(1, request.target.length - 3)
    // Removes blanks and raw non-Latin letters, which would make no valid request line.
    return {
      ...request,
      target: request.target.slice(0, at) + (inserted === ' ' ? '%20' : inserted) + request.target.slice(at + cut)
    }
  })

/** Corrupts one place of a body. */
export const corruptBody = (requests: fc.Arbitrary<RequestVariant>): fc.Arbitrary<RequestVariant> =>
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

const validRequest = fc.oneof(modules, tables, events, blocks, plain)

/** Requests of every kind, mostly valid. */
export const requestVariant = fc.oneof({ weight: 4, arbitrary: validRequest }, {
  weight: 2,
  arbitrary: corruptTarget(validRequest)
}, {
  weight: 1,
  arbitrary: corruptBody(tables)
})

const encoded = (text: string, isTwice: boolean): string =>
  isTwice ? encodeURIComponent(encodeURIComponent(text)) : encodeURIComponent(text)
const atVersion = parameters(integer('ledger_version', version))
const number = fc.tuple(version, integerStyle, fc.boolean()).map(([value, style, isTwice]) =>
  encoded(renderInteger(value, style), isTwice)
)
const known = 'ab'.repeat(32)

const gets = getRequest(fc.oneof(
  fc.tuple(accountVariant, atVersion).map(([account, query]) => `/v1/accounts/${account}${query}`),
  fc.tuple(accountVariant, parameters(integer('ledger_version', version), limit, cursor)).map(([account, query]) =>
    `/v1/accounts/${account}/resources${query}`
  ),
  fc.tuple(accountVariant, handles, fc.boolean(), atVersion).map(([account, type, isTwice, query]) =>
    `/v1/accounts/${account}/resource/${encoded(type, isTwice)}${query}`
  ),
  fc.tuple(
    accountVariant,
    fc.oneof(handles, accountVariant, fc.constantFrom('0x1::aptos_coin::AptosCoin', 'u64', '0x1::a')),
    fc.boolean(),
    atVersion
  ).map(([account, asset, isTwice, query]) => `/v1/accounts/${account}/balance/${encoded(asset, isTwice)}${query}`),
  fc.tuple(
    accountVariant,
    fc.constantFrom('coin', 'Coin', 'game', 'c%6Fin', 'c%256Fin', '_', '1a', 'menu', 'co in'),
    atVersion
  ).map(([account, name, query]) => `/v1/accounts/${account}/module/${name.replace(' ', '%20')}${query}`),
  fc.tuple(accountVariant, number, parameters(integer('start', fc.bigInt(0n, 1200n)), limit)).map((
    [account, creation, query]
  ) => `/v1/accounts/${account}/events/${creation}${query}`),
  fc.tuple(
    accountVariant,
    fc.constantFrom('2', '3', '+3', '03', '%2B3'),
    parameters(integer('start', fc.bigInt(0n, 1200n)), limit)
  ).map(([account, creation, query]) => `/v1/accounts/${account}/events/${creation}${query}`),
  fc.tuple(number, fc.constantFrom('', '?with_transactions=true', '?with_transactions=1')).map(([height, query]) =>
    `/v1/blocks/by_height/${height}${query}`
  ),
  number.map(at => `/v1/transactions/by_version/${at}`),
  fc.constantFrom(
    known,
    `0x${known}`,
    `0X${known}`,
    known.toUpperCase(),
    `0x${known.slice(2)}`,
    `${known}00`,
    `%30x${known}`,
    encodeURIComponent(`%30x${known}`)
  ).map(hash => `/v1/transactions/by_hash/${hash}`),
  parameters(integer('start', version), limit).map(query => `/v1/transactions${query}`),
  fc.constantFrom('/v1', '/v1/', '/v1?x=1')
))

const contentType = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-8',
  'application/x+json',
  'text/plain',
  undefined
)
const post = (target: fc.Arbitrary<string>, text: fc.Arbitrary<string>): fc.Arbitrary<RequestVariant> =>
  fc.tuple(target, text, accept, contentType).map(([path, body, form, type]) => ({
    method: 'POST',
    target: path,
    accept: form,
    contentType: type,
    body
  }))

const raws = post(
  fc.tuple(accountVariant, atVersion).map(([handle, query]) => `/v1/tables/${handle}/raw_item${query}`),
  fc.constantFrom(
    '"0x0700000000000000"',
    '"0700000000000000"',
    '"0x07000000000000"',
    '"0X07"',
    '"0xabc"',
    '""',
    '"0x"',
    '7',
    'null',
    '"0xAB"'
  ).map(key => `{ "junk": [], "key" : ${key} }`)
)

const views = post(
  atVersion.map(query => `/v1/view${query}`),
  fc.tuple(
    fc.constantFrom(
      '0x1::block::get_current_block_height',
      '1::block::get_current_block_height',
      '0x01::coin::balance',
      '0X1::coin::balance',
      '0x1::coin',
      '0x1::coin::balance::x',
      '0x1:: coin::balance',
      '0x1::none::f',
      ''
    ),
    fc.constantFrom(
      '[]',
      '["0x1::aptos_coin::AptosCoin"]',
      '[" 0X01 :: aptos_coin :: AptosCoin "]',
      '["u64"]',
      '[7]',
      '{}',
      '["x y"]',
      '["no_such"]'
    ),
    fc.constantFrom('[]', '["0xcafe"]', '[ "cafe" ]', '["0xzz"]', '[1.0]', '[{"a":1,"a":2}]', '{}', 'null'),
    fc.boolean()
  ).map(([name, types, args, isTurned]) => {
    const members = [
      `"function":${JSON.stringify(name)}`,
      `"type_arguments" : ${types}`,
      `"arguments":${args}`,
      '"x":1'
    ]
    return `{${(isTurned ? members.reverse() : members).join(' , ')}}`
  })
)

const posts = fc.oneof(raws, views)
const wellFormed = fc.oneof({ weight: 3, arbitrary: gets }, { weight: 1, arbitrary: posts })

/** Requests of every kind that real nodes serve besides the six, mostly well-formed. */
export const additionalRequest = fc.oneof(
  { weight: 4, arbitrary: wellFormed },
  { weight: 2, arbitrary: corruptTarget(wellFormed) },
  {
    weight: 1,
    arbitrary: corruptBody(posts)
  }
)

/** True if a node rejects the request itself before it reads its ledger. */
export function isRejectedRequest ({ status, headers, body }: TestResponse): boolean {
  if (headers['x-aptos-ledger-version'] !== undefined) return false
  return status === 405 || status === 415 || status === 411 ||
    (status === 404 && body.includes('"web_framework_error"')) || status === 400
}

const onceOnly = new Set(['ledger_version', 'start', 'limit', 'with_transactions'])

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

import fc from 'fast-check'
import {
  accept,
  accountVariant,
  corruptBody,
  cursor,
  getRequest,
  handles,
  integer,
  limit,
  parameters,
  type RequestVariant,
  corruptTarget,
  version
} from './request-variants.js'
import { integerStyle, renderInteger } from './value-variants.js'

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

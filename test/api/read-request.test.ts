import fc from 'fast-check'
import t from 'tap'
import { atVersion, keysOf, targetOf, type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { check, seedTitle } from '../support/properties.js'
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
  tagStyle,
  u64
} from '../support/value-variants.js'

const chain = { id: 4, generation: 1 }

interface Sent {
  method?: string
  accept?: string
  contentType?: string | undefined
  body?: string | Buffer
}

function read (target: string, sent: Sent = {}): Read | undefined {
  const method = sent.method ?? (sent.body === undefined ? 'GET' : 'POST')
  const match = matchEndpoint(target, 'GET')
  return match && readRequest(match, {
    method,
    accept: sent.accept,
    contentType: 'contentType' in sent ? sent.contentType : 'application/json',
    body: Buffer.from(sent.body ?? '')
  }, { eventsDefault: 25 })
}

const keyOf = (target: string, sent?: Sent): string => {
  const found = read(target, sent)
  if (found === undefined) throw new Error(`no read at ${target}`)
  return keysOf(found, chain).value
}

/** Returns everything that an upstream is sent of a request. */
const upstreamOf = (target: string, sent?: Sent): string => {
  const found = read(target, sent)
  return found === undefined
    ? 'none'
    : `${found.endpoint.method} ${targetOf(found)} ${found.accept} ${found.body?.sent ?? ''}`
}

const rejectionOf = (target: string, sent?: Sent): ErrorResponse | undefined => {
  try {
    read(target, sent)
    return undefined
  } catch (error) {
    if (error instanceof ErrorResponse) return error
    throw error
  }
}

const modules = '/v1/accounts/0x1/modules'
const item = '/v1/tables/0xab/item'
const body = (key: string, keyType = 'u64', valueType = 'u64'): string =>
  `{"key_type":"${keyType}","value_type":"${valueType}","key":${key}}`

t.test(`every variant of a modules read gives one key and one upstream request (${seedTitle})`, async () => {
  check(
    fc.property(
      address,
      addressStyle,
      u64,
      integerStyle,
      fc.nat(65535),
      integerStyle,
      fc.boolean(),
      fc.boolean(),
      (account, aStyle, version, vStyle, limit, lStyle, isEncoded, isTurned) => {
        const encode = (text: string): string =>
          isEncoded
            ? [...Buffer.from(text)].map(byte => `%${byte.toString(16)}`).join('')
            : encodeURIComponent(text)
        const parameters = [
          `ledger_version=${encode(renderInteger(version, vStyle))}`,
          `limit=${encode(renderInteger(BigInt(limit), lStyle))}`,
          'unknown=1&unknown=2'
        ]
        if (isTurned) parameters.reverse()
        const plain = `/v1/accounts/0x${account}/modules?ledger_version=${version}&limit=${limit}`
        const variant = `/v1/accounts/${encode(encode(renderAddress(account, aStyle)))}/modules?${parameters.join('&')}`
        return keyOf(plain) === keyOf(variant) && upstreamOf(plain) === upstreamOf(variant)
      }
    )
  )
})

t.test(`every variant of an event listing gives one key and one upstream request (${seedTitle})`, async () => {
  check(
    fc.property(
      address,
      addressStyle,
      struct,
      tagStyle,
      u64,
      integerStyle,
      (account, aStyle, handle, hStyle, start, sStyle) => {
        const plain = `/v1/accounts/0x${account}/events/${
          encodeURIComponent(canonicalTag(handle))
        }/deposit_events?start=${start}`
        const variant = `/v1/accounts/${renderAddress(account, aStyle)}/events/${
          encodeURIComponent(encodeURIComponent(renderTag(handle, hStyle)))
        }/deposit_events?start=${encodeURIComponent(renderInteger(start, sStyle))}`
        return keyOf(plain) === keyOf(variant) && upstreamOf(plain) === upstreamOf(variant)
      }
    )
  )
})

t.test(`every variant of a table item's types has one key and one upstream request (${seedTitle})`, async () => {
  check(
    fc.property(address, addressStyle, tag, tagStyle, tag, tagStyle, (handle, hStyle, key, kStyle, value, vStyle) => {
      const plain = { body: JSON.stringify({ key_type: canonicalTag(key), value_type: canonicalTag(value), key: 'k' }) }
      const variant = {
        body: JSON.stringify(
          { key: 'k', extra: { key: 1 }, value_type: renderTag(value, vStyle), key_type: renderTag(key, kStyle) },
          null,
          2
        )
      }
      const target = `/v1/tables/${renderAddress(handle, hStyle)}/item`
      return keyOf(`/v1/tables/0x${handle}/item`, plain) === keyOf(target, variant) &&
        upstreamOf(`/v1/tables/0x${handle}/item`, plain) === upstreamOf(target, variant)
    })
  )
})

t.test('every text of a table key that full nodes read alike has one key', async t => {
  const same: [string, string, string][] = [
    ['u64', '"7"', '"007"'],
    ['u64', '"7"', '"+7"'],
    ['u128', '"7"', '"07"'],
    ['u256', '"7"', '"07"'],
    ['i64', '"-7"', '"-007"'],
    ['i64', '"0"', '"-0"'],
    ['address', '"0x1"', '"1"'],
    ['address', '"0xAb"', '"00ab"'],
    ['vector<u8>', '"0xAB"', '"ab"'],
    ['vector<u64>', '["1","2"]', '[ "01" , "+2" ]'],
    ['vector<vector<u8>>', '["0xab"]', '["AB"]'],
    ['0x1::object::Object<0x1::a::B>', '"0x1"', '"01"'],
    ['0x1::a::S', '{"a":"1","b":2}', '{ "b" : 2, "a" : "1" }'],
    ['0x1::string::String', '"A"', '"\\u0041"']
  ]
  for (const [type, a, b] of same) {
    t.equal(keyOf(item, { body: body(a, type) }), keyOf(item, { body: body(b, type) }), `${type}: ${a} and ${b}`)
  }
})

t.test('table keys that may differ in meaning have different keys', async t => {
  const different: [string, string, string][] = [
    ['u64', '18446744073709551615', '18446744073709551614'],
    ['u64', '1', '1.0'],
    ['u64', '0', '-0'],
    ['u64', '1', '"1"'],
    ['u64', '10', '1e1'],
    ['u64', '"18446744073709551616"', '"018446744073709551616"'],
    ['u8', '"7"', '"07"'],
    ['bool', 'true', 'false'],
    ['bool', 'null', '"null"'],
    ['0x1::string::String', '"AB"', '"ab"'],
    ['0x1::string::String', '"7"', '"07"'],
    ['vector<u8>', '"0xa"', '"a"'],
    ['vector<u8>', '"0Xab"', '"0xab"'],
    ['vector<u64>', '["1","2"]', '["2","1"]'],
    ['vector<u64>', '["1"]', '"1"'],
    ['address', '"0X1"', '"0x1"'],
    ['0x1::a::S', '{"a":{"a":1}}', '{"a":1}'],
    ['0x1::m::S', '{"constructor":{"prototype":{"x":1}},"a":1}', '{"a":1}'],
    ['0x1::m::S', '{"__proto__":1,"a":1}', '{"a":1}'],
    ['0x2::object::Object<u8>', '"0x1"', '"01"'],
    ['0x1::a::S', '[]', '{}'],
    ['vector<0x1::a::S>', '[{"a":1}]', '[{"a":2}]']
  ]
  for (const [type, a, b] of different) {
    t.not(keyOf(item, { body: body(a, type) }), keyOf(item, { body: body(b, type) }), `${type}: ${a} and ${b}`)
  }
  t.not(keyOf(item, { body: body('"1"', 'u64') }), keyOf(item, { body: body('"1"', 'u128') }), 'another key type')
  t.not(
    keyOf(item, { body: body('"1"', 'u64', 'u64') }),
    keyOf(item, { body: body('"1"', 'u64', 'u8') }),
    'another value type'
  )
  t.not(keyOf(item, { body: body('"1"') }), keyOf('/v1/tables/0xac/item', { body: body('"1"') }), 'another table')
})

t.test('a table key goes upstream in the client\'s member order, digits and escapes, without blanks', async t => {
  const sent = '{ "key" : { "b" : 1.00, "2":[ 1e5 , -0 ], "a" : "x \\u0041 \\" y" , "1": 18446744073709551615 } , ' +
    '"value_type":"u8", "key_type" : "0x1::a::S", "junk": [ {} ] }'
  t.equal(
    read(item, { body: sent })?.body?.sent,
    '{"key_type":"0x1::a::S","value_type":"u8","key":{"b":1.00,"2":[1e5,-0],"a":"x \\u0041 \\" ' +
      'y","1":18446744073709551615}}'
  )
})

t.test('a not-found is keyed by the exact text, a value by its canonical key', async t => {
  const keys = (key: string): { value: string, text: string } =>
    keysOf(read(`${item}?ledger_version=5`, { body: body(key) }) as Read, chain)
  t.equal(keys('"7"').value, keys('"07"').value)
  t.not(keys('"7"').text, keys('"07"').text)
  t.not(keys('"7"').text, keys('"7"').value, 'value and text keys never collide')
  t.equal(
    keysOf(read(modules) as Read, chain).text,
    keysOf(read(modules) as Read, chain).value,
    'without a body there is one key'
  )
})

t.test('every change of meaning changes the key', async t => {
  const targets = [
    modules,
    `${modules}?ledger_version=5`,
    `${modules}?ledger_version=6`,
    `${modules}?ledger_version=5&limit=0`,
    `${modules}?ledger_version=5&limit=9999`,
    `${modules}?ledger_version=5&start=00`,
    '/v1/accounts/0x2/modules',
    '/v1/estimate_gas_price',
    '/v1/blocks/by_version/5',
    '/v1/blocks/by_version/5?with_transactions=true',
    '/v1/accounts/0x1/events/0x1::a::B/f',
    '/v1/accounts/0x1/events/0x1::a::B/f?start=5',
    '/v1/accounts/0x1/events/0x1::a::B/f?limit=5',
    '/v1/accounts/0x1/events/0x1::a::B/F',
    '/v1/accounts/0x1/events/0x1::a::b/f',
    `${modules}?ledger_version=18446744073709551615`,
    `${modules}?ledger_version=18446744073709551614`
  ]
  const keys = targets.flatMap(target => [keyOf(target), keyOf(target, { accept: 'application/x-bcs' })])
  keys.push(
    keysOf(read(modules) as Read, { id: 5, generation: 1 }).value,
    keysOf(read(modules) as Read, { id: 4, generation: 2 }).value
  )
  t.equal(new Set(keys).size, keys.length)
  t.equal(
    keyOf('/v1/info', { accept: 'application/x-bcs' }),
    keyOf('/v1/info'),
    'node info is JSON for any Accept'
  )
  t.equal(
    keyOf('/v1/blocks/by_version/5?with_transactions=false'),
    keyOf('/v1/blocks/by_version/5'),
    'a flag that is off means the default'
  )
  t.equal(
    keyOf('/v1/accounts/0x1/events/0x1::a::B/f?limit=25&start=05'),
    keyOf('/v1/accounts/0x1/events/0x1::a::B/f?start=5'),
    'a missing limit is the default limit'
  )
  t.equal(
    keysOf(atVersion(read(modules) as Read, 5n), chain).value,
    keyOf(`${modules}?ledger_version=5`),
    'a latest read at a version is the read at that version'
  )
})

t.test('a long table key makes a cache key no longer than a short one', async t => {
  const key = keyOf(`${item}?ledger_version=5`, {
    body: body(JSON.stringify('x'.repeat(500_000)), '0x1::string::String')
  })
  t.ok(key.length < 600, String(key.length))
  t.not(
    key,
    keyOf(`${item}?ledger_version=5`, { body: body(JSON.stringify('x'.repeat(499_999) + 'y'), '0x1::string::String') })
  )
})

t.test('an invalid value is rejected with 400 invalid_input', async t => {
  const handle = '/v1/accounts/0x1/events'
  const bad = [
    ...[
      '',
      '+5',
      '5%20',
      '%205',
      '5%00',
      '1e3',
      '0b101',
      '5abc',
      '%EF%BC%95',
      '-0',
      'null',
      '9'.repeat(300),
      '5;start=0x01',
      '5?x=1',
      '18446744073709551616'
    ].map(text => `${modules}?ledger_version=${text}`),
    ...['', '0x', '0xab', 'zz', 'abc', '%20ab'].map(text => `${modules}?start=${text}`),
    ...['', '-1', '65536', '1.0'].map(text => `${modules}?limit=${text}`),
    `${modules}?ledger_version=5&ledger_version=5`,
    `${modules}?limit=1&%6cimit=2`,
    `${modules}?ledger_version=5#x`,
    `${modules}?ledger_version=<5`,
    '/v1/accounts/0X1/modules',
    '/v1/accounts//modules',
    '/v1/accounts/0x0x1/modules',
    `/v1/accounts/0x${'0'.repeat(65)}/modules`,
    '/v1/accounts/0x1%2fmodules/modules',
    '/v1/accounts/%c0%af/modules',
    '/v1/accounts/%/modules',
    '/v1/accounts/0x1%25zz/modules',
    '/v1/accounts/../modules',
    '/v1/blocks/by_version/',
    '/v1/blocks/by_version/5.json',
    '/v1/blocks/by_version/%2535',
    '/v1/blocks/by_version/5?with_transactions=1',
    '/v1/blocks/by_version/5?with_transactions=True',
    '/v1/blocks/by_version/5?with_transactions=',
    `${handle}/0x1::coin::CoinStore<u8>/f`,
    `${handle}/u64/f`,
    `${handle}/0x1::a/f`,
    `${handle}/0x1::a::B/0f`,
    `${handle}/0x1::a::B/_`,
    `${handle}/1::a::B/f`,
    `${handle}/0x1::a::B/f?start=-1`
  ]
  for (const target of bad) {
    const rejection = rejectionOf(target)
    t.match(rejection, { status: 400, code: 'invalid_input' }, target.slice(0, 80))
    t.same(
      Object.keys(JSON.parse(rejection?.body ?? '{}')),
      ['message', 'error_code', 'vm_error_code'],
      'in the node\'s shape'
    )
  }
})

t.test('an ambiguous or malformed body is rejected', async t => {
  const bad = [
    '',
    '[]',
    '1',
    'null',
    '{',
    '{}',
    '\ufeff' + body('1'),
    body('01'),
    body('1') + 'x',
    body('1 2'),
    body('"a" "b"'),
    body('\'1\''),
    body('NaN'),
    body('{"a":1,}'),
    body('"\\x"'),
    body('"\t"'),
    '{"key_type":"u64","value_type":"u64"}',
    '{"key_type":"u64","key":1}',
    '{"value_type":"u64","key":1}',
    '{"key_type":1,"value_type":"u64","key":1}',
    '{"key_type":"u64","value_type":null,"key":1}',
    body('1', ''),
    body('1', '0x1::a'),
    body('1', 'u64', 'vector'),
    body('"1","key":"2"'),
    body('"1","key":"1"'),
    body('"1","k\\u0065y":"1"'),
    body('{"a":1,"a":1}'),
    body('{"a":[{"b":1,"b":1}]}'),
    body('1,"x":{"y":1,"y":2}'),
    body('{"__proto__":1,"__proto__":1}'),
    body('['.repeat(20_000) + ']'.repeat(20_000)),
    body('['.repeat(127) + ']'.repeat(127)),
    body('\u00a01'),
    body('"\\ud800"'),
    body('{"\\udc00":1}'),
    body('["\\ud800x"]')
  ]
  for (const text of bad) {
    t.match(rejectionOf(item, { body: text }), { status: 400, code: 'invalid_input' }, text.slice(0, 90))
  }
  t.match(
    rejectionOf(item, { body: Buffer.from([...Buffer.from(body('"'))].concat(0xff, 0xfe)) }),
    { status: 400 },
    'not UTF-8'
  )
  t.equal(rejectionOf(item, { body: body('['.repeat(126) + ']'.repeat(126)) }), undefined, 'as deep as nodes read')
})

t.test('a body of another content type is rejected with 415', async t => {
  for (
    const contentType of [
      undefined,
      '',
      'application/x-bcs',
      'text/plain',
      'application/jsonx',
      'application/x-www-form-urlencoded',
      'json',
      '\u00a0application/json',
      'application/json, text/plain'
    ]
  ) {
    t.match(
      rejectionOf(item, { body: body('"1"'), contentType }),
      { status: 415, code: 'web_framework_error' },
      String(contentType)
    )
  }
  for (
    const contentType of [
      'application/json',
      'Application/JSON; charset=utf-8',
      'application/vnd.api+json',
      'application/json ;x=y'
    ]
  ) {
    t.equal(rejectionOf(item, { body: body('"1"'), contentType }), undefined, contentType)
  }
})

t.test('an unknown route is not a read, and a known route with another method gets 405', async t => {
  for (
    const target of [
      '/',
      '/v1//',
      '/v1/.',
      '/v2/info',
      '/v1/info/',
      '/v1//info',
      '/v1/blocks/./by_version/5',
      '/v1/blocks/by_version/5/../6',
      '/V1/info',
      '/v1/tables/0x1',
      '*',
      '',
      '/v1/%69nfo'
    ]
  ) {
    t.equal(matchEndpoint(target, 'GET'), undefined, target)
  }
  t.match(rejectionOf(modules, { method: 'POST' }), { status: 405, code: 'web_framework_error' })
  t.match(rejectionOf(item, { method: 'HEAD' }), { status: 405 })
  t.match(rejectionOf('/v1/info', { method: 'TRACE' }), { status: 405 })
  t.equal(keyOf(modules, { method: 'HEAD' }), keyOf(modules), 'HEAD is GET without a body')
})

t.test('a second question mark is part of a parameter name, as on full nodes', async t => {
  t.equal(keyOf(`${modules}??ledger_version=5`), keyOf(modules))
  t.equal(keyOf(`${modules}?ledger_version=5&?limit=1`), keyOf(`${modules}?ledger_version=5`))
})

t.test('a read knows the requested version', async t => {
  t.equal(read(`${modules}?ledger_version=5`)?.requestedVersion, 5n)
  t.equal(read('/v1/blocks/by_version/%2B007')?.requestedVersion, 7n)
  t.equal(read(modules)?.requestedVersion, undefined)
  t.equal(atVersion(read(modules) as Read, 9n).requestedVersion, 9n)
})

t.test('an absolute request target is read by its path', async t => {
  t.equal(keyOf(`http://evil.example${modules}?ledger_version=5`), keyOf(`${modules}?ledger_version=5`))
  t.equal(upstreamOf(`HTTPS://evil.example:1${modules}`), upstreamOf(modules))
})

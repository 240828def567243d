import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { requestNode, getRaw, requestTableItem, sendRaw } from './request-node.js'

async function start (t: Test) {
  const sandbox = await startSandbox({ blockMs: 0, blocks: 100, prunedBlocks: 10 })
  t.teardown(() => sandbox.close())
  return sandbox
}

const framework = { error_code: 'web_framework_error', vm_error_code: null }
const item = { key_type: 'u64', value_type: 'u64', key: '7' }

t.test('an address is read in every variant, after two decodings, and returned in one form', async t => {
  const { url } = await start(t)
  const known = (await requestNode(`${url}/v1/accounts/0x42/modules`)).text
  for (
    const variant of ['42', '0x042', `0x${'42'.padStart(64, '0')}`, '%342', '%25342', '0%78%34%32', '0%2578%2534%2532']
  ) {
    t.equal((await requestNode(`${url}/v1/accounts/${variant}/modules`)).text, known, variant)
  }
  t.equal(
    (await requestNode(`${url}/v1/accounts/CAFE/modules`)).text,
    (await requestNode(`${url}/v1/accounts/0xcafe/modules`)).text
  )
  for (const variant of ['0X42', '0x', '', '0x42g', '0'.repeat(65), '4%2F2', '0x4%202', '+42', '%zz', '%252542']) {
    const rejected = await requestNode(`${url}/v1/accounts/${variant}/modules`)
    t.equal(rejected.status, 400, variant)
    t.same(rejected.names, ['content-type', 'content-length', 'date'])
    t.match(rejected.json, {
      ...framework,
      message: /^failed to parse path `address`: failed to parse "string\(Address\)": /
    })
  }
})

t.test('a u64 in a query may have zeros or an encoded plus, but may not be empty', async t => {
  const { url, ledger } = await start(t)
  const { version } = ledger.head
  const at = async (text: string) => await requestNode(`${url}/v1/accounts/0x42/modules?ledger_version=${text}`)
  for (
    const text of [
      `${version}`,
      `000${version}`,
      `%2B${version}`,
      `%252B0${version}`,
      `${version}&ledger_version=x`,
      `${version}&other=%zz`
    ]
  ) {
    t.equal((await at(text)).status, 200, text)
  }
  for (
    const text of [
      '',
      '+5',
      '-1',
      '1.0',
      '0x5',
      '%205',
      '1_000',
      '18446744073709551616',
      '5%0A',
      '5&ledger_version=6'.slice(1),
      'five'
    ]
  ) {
    const rejected = await at(text)
    t.equal(rejected.status, 400, text)
    t.match(rejected.json, framework)
    t.notOk(rejected.headers['x-aptos-chain-id'])
  }
  t.equal(
    (await at('-1')).json.message,
    'failed to parse parameter `ledger_version`: failed to parse "string(U64)": Parsing u64 string "-1" failed, ' +
      'caused by error: invalid digit found in string (occurred while parsing "optional<string(U64)>")'
  )
  t.equal((await at('18446744073709551615')).status, 404)
  t.equal((await requestNode(`${url}/v1/accounts/0x42/modules?LEDGER_VERSION=x`)).status, 200)
})

t.test('limits are u16 and not zero, and flags are exactly true or false', async t => {
  const { url, ledger } = await start(t)
  for (const limit of ['65536', '', '-1', '1.5', '+1']) {
    t.match((await requestNode(`${url}/v1/accounts/1/modules?limit=${limit}`)).json, framework, limit)
  }
  t.match(
    (await requestNode(`${url}/v1/accounts/1/modules?limit=65536`)).json.message,
    /number too large to fit in target type/
  )
  const zero = await requestNode(`${url}/v1/accounts/1/modules?limit=0`)
  t.equal(zero.status, 400)
  t.same(zero.json, {
    message: 'Given limit value (0) must not be zero',
    error_code: 'invalid_input',
    vm_error_code: null
  })
  t.ok(zero.headers['x-aptos-chain-id'])
  t.equal(zero.headers['content-type'], 'application/json; charset=utf-8')
  t.equal((await requestNode(`${url}/v1/accounts/1/modules?limit=%2B065535`)).status, 200)
  const { version } = ledger.head
  for (const flag of ['1', 'True', '', 'yes', 'true ']) {
    t.match(
      (await requestNode(`${url}/v1/blocks/by_version/${version}?with_transactions=${encodeURIComponent(flag)}`)).json,
      framework,
      flag
    )
  }
  for (
    const path of [`${version}`, `+${version}`, `0${version}`, `%2B${version}`, `${version}?with_transactions=false`]
  ) {
    t.equal((await requestNode(`${url}/v1/blocks/by_version/${path}`)).json.transactions, null, path)
  }
  for (const path of ['%252B5', 'x', '-1', '18446744073709551616', '%205', '']) {
    t.match((await requestNode(`${url}/v1/blocks/by_version/${path}`)).json, {
      ...framework,
      message: /^failed to parse path `version`/
    }, path)
  }
})

t.test('a POST must state its length, fit the limit, and be JSON', async t => {
  const { url } = await start(t)
  const head = 'POST /v1/tables/1/item HTTP/1.1\r\nhost: node\r\nconnection: close\r\n'
  t.match(
    await sendRaw(url, `${head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
    /^HTTP\/1\.1 411 Length Required\r\ncontent-type: application\/json\r\n/
  )
  t.match(
    await sendRaw(url, `${head}content-type: application/json\r\ncontent-length: 8388609\r\n\r\n`),
    /^HTTP\/1\.1 413 .*payload too large/s
  )
  t.match(
    await sendRaw(
      url,
      'POST /nowhere HTTP/1.1\r\nhost: node\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'
    ),
    /^HTTP\/1\.1 411 /
  )
  t.equal((await requestNode(`${url}/v1/info`, { method: 'POST', body: '' })).status, 405)
  const typed = async (type: string) => (await requestTableItem(url, item, '', '0x1', { 'content-type': type })).status
  for (
    const type of ['application/json', 'Application/JSON; charset=latin1', 'application/vnd.x+json', 'text/x+json']
  ) t.equal(await typed(type), 200, type)
  for (
    const type of [
      'text/plain',
      'application/x-bcs',
      'application/jsonx',
      'json',
      '+json',
      '\\application/x+json',
      'a"/x+json'
    ]
  ) t.equal(await typed(type), 415, type)
  const untyped = await requestNode(`${url}/v1/tables/1/item`, { method: 'POST', body: JSON.stringify(item) })
  t.equal(untyped.status, 415)
  t.match(untyped.json, framework)
  // Checks run in this order: path, body, query.
  t.match((await requestTableItem(url, '{', '?ledger_version=', '0xg')).json.message, /table_handle/)
  t.match((await requestTableItem(url, '{', '?ledger_version=')).json.message, /^parse request payload error: /)
  t.match((await requestTableItem(url, item, '?ledger_version=')).json.message, /ledger_version/)
})

t.test('only JSON that full nodes accept is accepted', async t => {
  const { url } = await start(t)
  const body = (key: string) => `{"key_type":"0x1::string::String","value_type":"u64","key":${key}}`
  const bad = [
    '',
    '[]',
    '"x"',
    'null',
    '{',
    '{"key_type":"u64"}',
    '{"key_type":1,"value_type":"u64","key":"1"}',
    `${body('"a"')}x`,
    `\ufeff${body('"a"')}`,
    '{"key_type":"u64","value_type":"u64"}',
    '{"key_type":"u64","value_type":"u64","key":"1","key":"1"}',
    '{"key_type":"u64","key_type":"u64","value_type":"u64","key":"1"}',
    '{"key_type":"u64","value_type":"u64","key":"1",}',
    '{\'key\':1}',
    body('"\\ud800"'),
    body('"\\ud800\\n"'),
    body('"\\ud800\\u0041"'),
    body('"\\udc00"'),
    body('"\\x"'),
    body('"\n"'),
    body('"\\u12g4"'),
    body('"a'),
    body('01'),
    body('1.'),
    body('.5'),
    body('+1'),
    body('1e'),
    body('-'),
    body('nul'),
    body('[1,]'),
    body('[1 2]'),
    body('{"a" 1}'),
    body('{a:1}'),
    body('NaN'),
    `${body('"a"').slice(0, -1)},"more":${'['.repeat(127)}${']'.repeat(127)}}`
  ]
  for (const text of bad) {
    const rejected = await requestTableItem(url, text)
    t.equal(rejected.status, 400, text.slice(0, 80))
    t.match(rejected.json, { ...framework, message: /^parse request payload error: / })
    t.notOk(rejected.headers['x-aptos-chain-id'])
  }
  t.equal(
    (await requestTableItem(url, Buffer.concat([Buffer.from(body('"').slice(0, -1)), Buffer.from([0xff, 0x22, 0x7d])])))
      .status,
    400
  )
  t.match((await requestTableItem(url, bad[10])).json.message, /duplicate field `key`/)
  const good = [
    body('"alice"'),
    ` \t\r\n${body('"alice"')} `,
    body('"\\u0061l\\u0069ce"'),
    `${body('"alice"').slice(0, -1)},"more":${'['.repeat(126)}${']'.repeat(126)}}`,
    `{"extra":{"a":1,"a":2},"extra":-0.5e+1,${body('"alice"').slice(1)}`,
    `{"extra":"\\ud83d\\ude00\\/",${body('"alice"').slice(1)}`,
    `{"x":[true,false,null,[],{}],${body('"alice"').slice(1)}`
  ]
  const expected = (await requestTableItem(url, good[0])).text
  for (const text of good) t.equal((await requestTableItem(url, text)).text, expected, text.slice(0, 80))
})

t.test('types are read in every variant, and an invalid type is rejected before the ledger is read', async t => {
  const { url } = await start(t)
  const alice = async (type: string) => await requestTableItem(url, { key_type: type, value_type: 'u8', key: 'alice' })
  const known = (await alice('0x1::string::String')).text
  for (const type of ['0X01::string::String', ' 0x1 :: string\t::\n String\f', '0x0001::string::String']) {
    t.equal((await alice(type)).text, known, type)
  }
  const responseForType = async (type: string) =>
    (await requestTableItem(url, { key_type: 'u64', value_type: type, key: '1' })).text
  const line = await responseForType('0x42::game::Line<u8>')
  for (const type of ['0x42::game::Line< u8 >', '0x42::game::Line<u8,>', '0X42::game::Line <u8 , >']) {
    t.equal(await responseForType(type), line, type)
  }
  const deep = (levels: number) => `${'vector<'.repeat(levels - 1)}u8${'>'.repeat(levels - 1)}`
  t.equal((await requestTableItem(url, { key_type: 'u64', value_type: deep(8), key: '1' })).status, 200)
  for (
    const type of [
      '',
      'u7',
      'U64',
      'string',
      'u64 u64',
      'u 64',
      'vector',
      'vector<>',
      'vector<u8,u8>',
      'vector<u8',
      'u64<u8>',
      '&u8',
      '1::a::b',
      '0x::a::b',
      '0x1::a',
      '0x1::a::b::c',
      '0x1::a::b<>',
      '0x1::a::b<,>',
      '0x1::a::b<u8,,>',
      '0x1: :a::b',
      '0x1g::a::b',
      '0x1::_::b',
      '0x1::a::$',
      '0x1::a::9',
      '0x 1::a::b',
      `0x${'1'.repeat(65)}::a::b`,
      deep(9),
      '0x1::a::b<u8>>',
      '0x1::a::b<u8 u8>',
      '0x1::a::b<',
      'é'
    ]
  ) {
    for (const request of [{ ...item, key_type: type }, { ...item, value_type: type }]) {
      const rejected = await requestTableItem(url, request, '?ledger_version=18446744073709551615')
      t.equal(rejected.status, 400, type)
      t.equal(rejected.json.error_code, 'invalid_input')
      t.same(rejected.names, ['content-type', 'content-length', 'date'])
      t.equal(rejected.headers['content-type'], 'application/json; charset=utf-8')
    }
  }
})

t.test('keys of every type have one name in every variant', async t => {
  const { url } = await start(t)
  const cell = '{"x":"1","y":"2","owner":"0x42"}'
  const same: Array<[string, string[]]> = [
    ['u64', ['"7"', '"007"', '"+7"']],
    ['u128', ['"7"', '"+0007"']],
    ['u256', ['"9"', '"09"']],
    ['i64', ['"-5"', '"-05"']],
    ['i128', ['"0"', '"-0"', '"+0"']],
    ['u8', ['7', ' 7']],
    ['u16', ['700']],
    ['u32', ['70000']],
    ['i8', ['-7']],
    ['i32', ['-70000']],
    ['bool', ['true']],
    ['bool', ['false']],
    ['address', ['"0x42"', '"42"', '"0x0042"', `"${'42'.padStart(64, '0')}"`]],
    ['vector<u8>', ['"0xAb"', '"ab"', '"AB"']],
    ['vector<u64>', ['["1","2"]', '["01", "+2"]']],
    ['vector<vector<u8>>', ['["0x", "00"]', '["","0x00"]']],
    ['0x1::string::String', ['"bob"', '"\\u0062ob"']],
    ['0x1::object::Object<0x1::a::B>', ['"0x42"', '"42"']],
    ['0x42::game::Cell', [
      cell,
      '{"owner":"42","y":"02","extra":null,"x":"1"}',
      '{"x":"5","y":"2","owner":"0x42","x":"1"}'
    ]],
    ['0x42::game::Line<u8>', [`{"from":${cell},"to":${cell},"tag":1}`, `{"tag":1,"to":${cell},"from":${cell}}`]],
    ['0x1::option::Option<u8>', ['{"vec":"0x01"}', '{"vec":"01"}']]
  ]
  for (const [type, keys] of same) {
    const found = await requestTableItem(
      url,
      `{"key_type":"${type}","value_type":"u64","key":${keys[0]}}`,
      '',
      '0x5eed'
    )
    t.equal(found.status, 200, type)
    for (const key of keys) {
      t.equal(
        (await requestTableItem(url, `{"key_type":"${type}","value_type":"u64","key":${key}}`, '', '0x5eed')).text,
        found.text,
        `${type} ${key}`
      )
    }
  }
})

t.test('a key of another type is rejected by the ledger, with the position', async t => {
  const { url } = await start(t)
  const wrong: Array<[string, string[]]> = [
    ['u64', ['7', 'null', '""', '"-1"', '"1.0"', '"0x1"', '" 1"', '"18446744073709551616"', '["1"]']],
    ['i64', ['"9223372036854775808"', '"-9223372036854775809"', '"--1"']],
    ['u8', ['"7"', '256', '-1', '1.0', '1e0', '-0', '[]']],
    ['i8', ['128', '-129', '-0', '"1"']],
    ['bool', ['1', '"true"', 'null']],
    ['address', ['"0X42"', '"0x"', '""', '42', '"0x42 "']],
    ['signer', ['"0x1"']],
    ['vector<u8>', ['"0xa"', '[1]', '"0Xaa"', '"zz"']],
    ['vector<u64>', ['"0x"', '[1]', '{}']],
    ['0x1::string::String', ['1', '["a"]']],
    ['0x1::object::Object<u8>', ['{"inner":"0x1"}', '1']],
    ['0x42::game::Cell', ['{"x":"1","y":"2"}', '[]', '{"x":1,"y":"2","owner":"0x1"}']],
    ['0x42::game::Line', ['{}']],
    ['0x9::no::Such', ['{}']]
  ]
  for (const [type, keys] of wrong) {
    for (const key of keys) {
      const rejected = await requestTableItem(url, `{"key_type":"${type}","value_type":"u64","key":${key}}`)
      t.equal(rejected.status, 400, `${type} ${key}`)
      t.equal(rejected.json.error_code, 'invalid_input')
      t.ok(rejected.headers['x-aptos-ledger-version'])
    }
  }
})

t.test('a not-found repeats the key as sent: order, number text, strings in shortest form', async t => {
  const { url, ledger } = await start(t)
  const version = ledger.head.version
  const keys: Array<[type: string, sent: string, quoted: string]> = [
    [
      '0x1::string::String',
      '"?\\u0041\\u00e9\\/\\b\\f\\n\\r\\t\\"\\\\\\u001F\\u007f"',
      '"?Aé/\\b\\f\\n\\r\\t\\"\\\\\\u001f\u007f"'
    ],
    ['u64', ' "000100" ', '"000100"'],
    ['u16', '300', '300'],
    [
      '0x42::game::Cell',
      '{ "y" : "02", "more": [1.50, -0, 1E+2, true, null, {}], "x":"1", "owner":"0xAB", "y": "2" }',
      '{"y":"2","more":[1.50,-0,1E+2,true,null,{}],"x":"1","owner":"0xAB"}'
    ]
  ]
  for (const [type, sent, quoted] of keys) {
    let missing
    for (let handle = 0; missing?.status !== 404; handle++) {
      missing = await requestTableItem(
        url,
        `{"key_type":"${type}","value_type":"u64","key":${sent}}`,
        '',
        `00${handle}`
      )
    }
    t.match(missing.json.message, /^Table Item not found by Table handle\(0x\d+\), /)
    t.ok(missing.json.message.includes(`Table key(${quoted}) and Ledger version(${version})`), missing.json.message)
    t.equal(missing.json.error_code, 'table_item_not_found')
    t.equal(missing.headers['x-aptos-ledger-version'], `${version}`)
  }
})

t.test('raw targets are read as they are: a plus in a path is a plus', async t => {
  const { url, ledger } = await start(t)
  t.match(await getRaw(url, `/v1/blocks/by_version/+${ledger.head.version}`), /^HTTP\/1\.1 200 OK/)
  t.match(await getRaw(url, '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'), /^HTTP\/1\.1 200 OK/)
})

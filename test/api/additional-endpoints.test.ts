import t from 'tap'
import { classOf, keysOf, type Read } from '../../src/api/read.js'
import { groupKey, moduleKey, resourceKey, structTagOf } from '../../src/api/state-key.js'
import { type RawRequest, matchEndpoint, readRequest } from '../../src/api/read-request.js'

const viewBcs = 'application/x.aptos.view_function+bcs'

function read (
  target: string,
  sent: { method?: string, accept?: string, contentType?: string, body?: string | Buffer } = {}
): Read {
  const request: RawRequest = {
    method: sent.method ?? (sent.body === undefined ? 'GET' : 'POST'),
    accept: sent.accept,
    contentType: sent.contentType ?? 'application/json',
    body: Buffer.from(sent.body ?? '')
  }
  const match = matchEndpoint(target, request.method)
  if (match === undefined) throw new Error(`no read at ${target}`)
  return readRequest(match, request)
}

const keysFor = (of: Read): ReturnType<typeof keysOf> => keysOf(of, { name: 'space' })

t.test('a view\'s key is its function, types and argument text, without blanks and other members', async t => {
  const view = (body: string, query = '?ledger_version=5'): Read => read(`/v1/view${query}`, { body })
  const plain = view(
    '{"function":"0x1::coin::balance","type_arguments":["0x1::a::B<u8>"],"arguments":["0xa",{"b":1.0}]}'
  )
  t.equal(
    plain.body?.sent,
    '{"function":"0x1::coin::balance","type_arguments":["0x1::a::B<u8>"],"arguments":["0xa",{"b":1.0}]}'
  )
  const other = view(
    ' { "arguments" : [ "0xa" , {"b" : 1.0} ], "x": 1, "type_arguments": [" 0x01 :: a :: B < u8 , > "], ' +
      '"function": "0x0001::coin::balance" } '
  )
  t.same(keysFor(other), keysFor(plain))
  t.equal(other.body?.sent, plain.body?.sent)
  t.same(
    keysFor(view('{"function":"1::coin::balance","type_arguments":["0x1::a::B<u8>"],"arguments":["0xa",{"b":1.0}]}')),
    keysFor(plain)
  )
  // Only the function knows what an argument means.
  for (const args of ['["0x0a",{"b":1.0}]', '["0xa",{"b":1}]', '["0xA",{"b":1.0}]']) {
    t.not(
      keysFor(view(`{"function":"0x1::coin::balance","type_arguments":["0x1::a::B<u8>"],"arguments":${args}}`)).value,
      keysFor(plain).value
    )
  }
  t.equal(classOf(view('{"function":"0x1::a::b","type_arguments":[],"arguments":[]}', '')), 'moving')
})

t.test('a view in BCS goes upstream byte for byte, under its own content type', async t => {
  const bytes = Buffer.from('00ff10', 'hex')
  const view = (contentType: string, body = bytes): Read => read('/v1/view?ledger_version=5', { contentType, body })
  t.match(view(viewBcs).body, { type: viewBcs, sent: bytes })
  t.same(keysFor(view('Application/X.Aptos.View_Function+BCS; x=y')), keysFor(view(viewBcs)))
  t.not(keysFor(view('application/x.other.view_function+bcs')).value, keysFor(view(viewBcs)).value)
  t.not(keysFor(view(viewBcs, Buffer.from('00ff11', 'hex'))).value, keysFor(view(viewBcs)).value)
  // JSON with the same hex text is another body.
  t.not(
    keysFor(view(viewBcs)).value,
    keysFor(
      read('/v1/view?ledger_version=5', {
        body: '{"function":"0x1::a::b","type_arguments":[],"arguments":["0x00ff10"]}'
      })
    ).value
  )
})

t.test('a state key has one key in every variant of its hex; a body that is no state key is a 400', async t => {
  const value = (key: string): Read =>
    read('/v1/experimental/state_values/raw?ledger_version=5', { body: JSON.stringify({ key }) })
  const table = `01${'5eed'.padStart(64, '0')}`
  const longKey = 'ab'.repeat(300)
  const owner = '1'.padStart(64, '0')
  const path = (hex: string): string => `00${owner}${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`
  // The path of 0x1::a::B with one type argument of these bytes.
  const typed = (argument: string): string => path(`01${owner}0161014201${argument}`)
  const ofAccounts = [
    moduleKey(owner, 'a'),
    ...['0x1::a::B', '0x1::a::B<vector<u8>,0x2::c::D<u64,i8>>'].flatMap(text => [
      resourceKey(owner, structTagOf(text)),
      groupKey(owner, structTagOf(text))
    ])
  ].map(key => String(key?.toString('hex')))
  const valid = ['0202abcd', `${table}00`, `${table}ac02${longKey}`, ...ofAccounts, typed('0bffff')]
  for (const key of valid) {
    for (const variant of [`0x${key}`, key.toUpperCase()]) {
      t.equal(keysFor(value(variant)).value, keysFor(value(key)).value, variant)
      t.equal(keysFor(value(variant)).text === keysFor(value(key)).text, variant === key, 'a not-found quotes the text')
    }
  }
  t.not(keysFor(value('0202abcd')).value, keysFor(value('0202abce')).value)
  const wrong = [
    '',
    '0x',
    '03',
    table,
    `${table}02ff`,
    `${table}0800`,
    `${table}8000`,
    '0202abcd00',
    '0202ab',
    '0202abc',
    '0X0202abcd',
    ...['ff', '03', '', `00${owner}`, `00${owner}0161ff`, `00${owner}013f`, `00${owner}0261`].map(path),
    ...[`01${owner}01610142`, `01${owner}0161014280`, `01${owner}0161014200ff`].map(path),
    ...['', '01ff', '06', '07', '06'.repeat(50) + '01'].map(typed)
  ]
  for (const key of wrong) {
    t.throws(() => value(key), { status: 400, code: 'invalid_input' }, key)
  }
})

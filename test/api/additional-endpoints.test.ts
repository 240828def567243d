import t from 'tap'
import { classOf, keysOf, type Read, targetOf } from '../../src/api/read.js'
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
const full = (digits: string): string => `0x${digits.padStart(64, '0')}`
const hash = 'Ab'.repeat(32)

t.test('every variant of a read on an additional endpoint gets one key and one upstream request', async t => {
  const cases: Array<[name: string, sent: string, variants: string[]]> = [
    ['account', `/v1/accounts/${full('a')}?ledger_version=5`, [
      '/v1/accounts/0xA?ledger_version=005',
      '/v1/accounts/a?x=1&ledger_version=%2B5',
      `/v1/accounts/${full('a')}?ledger_version=5`
    ]],
    ['account_resources', `/v1/accounts/${full('1')}/resources?ledger_version=5&start=00ab&limit=7`, [
      '/v1/accounts/1/resources?limit=007&start=00AB&ledger_version=5'
    ]],
    [
      'account_resource',
      `/v1/accounts/${full('1')}/resource/0x1%3A%3Ac%3A%3AD%3C0x2%3A%3Aa%3A%3AB%2Cu8%3E?ledger_version=5`,
      [
        '/v1/accounts/0x1/resource/0x1::c::D%3C0x02::a::B,%20u8%3E?ledger_version=5',
        '/v1/accounts/0x1/resource/0X01::c::D%253C0x2::a::B%252C%2520u8%253E?ledger_version=5'
      ]
    ],
    ['account_balance', `/v1/accounts/${full('1')}/balance/0x1%3A%3Aa%3A%3AB?ledger_version=5`, [
      '/v1/accounts/1/balance/0x01::a::B?ledger_version=5'
    ]],
    ['account_balance', `/v1/accounts/${full('1')}/balance/${full('a')}?ledger_version=5`, [
      '/v1/accounts/0x1/balance/a?ledger_version=5',
      '/v1/accounts/0x1/balance/0x0A?ledger_version=5'
    ]],
    ['account_module', `/v1/accounts/${full('1')}/module/coin?ledger_version=5`, [
      '/v1/accounts/0x01/module/c%6Fin?ledger_version=5'
    ]],
    ['transaction_by_version', '/v1/transactions/by_version/7', [
      '/v1/transactions/by_version/007',
      '/v1/transactions/by_version/%2B7?with_events=1'
    ]],
    ['transaction_by_hash', `/v1/transactions/by_hash/0x${hash.toLowerCase()}`, [
      `/v1/transactions/by_hash/${hash}`,
      `/v1/transactions/by_hash/0x${hash}`
    ]],
    ['transactions', '/v1/transactions?start=5&limit=7', [
      '/v1/transactions?limit=7&start=05',
      '/v1/transactions?start=%2B5&limit=07&x=1'
    ]],
    ['block_by_height', '/v1/blocks/by_height/7?with_transactions=true', [
      '/v1/blocks/by_height/07?with_transactions=true'
    ]],
    ['block_by_height', '/v1/blocks/by_height/7', ['/v1/blocks/by_height/7?with_transactions=false']],
    ['index', '/v1', ['/v1', '/v1/', '/v1?', '/v1/?a=b']]
  ]
  for (const [name, sent, variants] of cases) {
    for (const spelled of variants) {
      const one = read(spelled)
      t.equal(one.endpoint.name, name, spelled)
      t.equal(targetOf(one), sent, spelled)
      t.same(keysFor(one), keysFor(read(sent)), spelled)
    }
  }
})

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

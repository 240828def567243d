import t from 'tap'
import { encodePurge, readPurge } from '../../src/api/purge-request.js'
import { type Read, targetOf } from '../../src/api/read.js'

const read = (body: unknown): ReturnType<typeof readPurge> =>
  readPurge(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)))

/** Returns the read that a purge names; undefined for other scopes. */
function readIn (body: unknown): Read | undefined {
  const wanted = read(body)
  return wanted.all || wanted.account !== undefined ? undefined : wanted.read
}

/** Returns the canonical request of the read that a purge names. */
function canonicalOf (body: unknown): string {
  const wanted = readIn(body)
  return wanted === undefined
    ? 'everything'
    : `${wanted.endpoint.method} ${targetOf(wanted)} ${wanted.body?.canonical ?? ''}`.trim()
}

t.test('a purge names a read by path or URL, in any request variant, with an optional method', async t => {
  const canonical = canonicalOf({ method: 'GET', url: '/v1/accounts/0x1/modules?ledger_version=5&limit=2' })
  t.match(canonical, /^GET \/v1\/accounts\/\S*1\/modules\?ledger_version=5&limit=2$/)
  for (
    const url of [
      '/v1/accounts/1/modules?limit=02&ledger_version=%2B5',
      'http://varve.example:8080/v1/accounts/0x0001/modules?ledger_version=5&limit=2',
      'https://h/v1/accounts/0x1/modules?limit=2&ledger_version=005&unknown=1'
    ]
  ) {
    for (const method of ['GET', 'HEAD', undefined]) {
      t.equal(canonicalOf({ method, url }), canonical, `${method} ${url}`)
    }
  }
})

t.test('the body of a table item read is an object or a string, and stays exact', async t => {
  const url = '/v1/tables/0xab/item?ledger_version=5'
  const body = { key_type: 'u64', value_type: 'u64', key: '7' }
  const canonical = canonicalOf({ method: 'POST', url, body })
  t.match(canonical, /^POST .*"key":"7"\}$/)
  for (
    const variant of [
      { key: '007', value_type: 'u64', key_type: ' u64' },
      JSON.stringify(body),
      '{ "key": "+7", "value_type": "u64", "key_type": "u64" }'
    ]
  ) t.equal(canonicalOf({ method: 'POST', url, body: variant }), canonical)
  const sentOf = (text: string): string => String(readIn(text)?.body?.sent)
  const head = `{"method":"POST","url":"${url}","body":`
  // Numbers and escapes that JSON.parse would lose are part of what a not-found quotes.
  for (const key of ['12345678901234567890123', '{"b":1.0,"a":[1e2,"\\u0041"]}', '"00\\u0037"']) {
    const typed = key.startsWith('{') ? '0x1::a::B' : 'u128'
    const inner = `{"key_type":"${typed}","value_type":"u64","key":${key}}`
    t.equal(sentOf(`${head}${inner}}`), inner)
    t.equal(sentOf(`${head}${JSON.stringify(inner)}}`), inner, 'the same as a string')
    t.equal(
      sentOf(`{ "body" :\t${inner.replace(',"value', ' ,\n"value')} , "url":"${url}","method":"POST" }`),
      inner,
      'blanks between are not part of it'
    )
  }
})

t.test('only {"all": true} purges everything', async t => {
  for (const text of ['{"all":true}', ' { "all" : true } ']) t.equal(canonicalOf(text), 'everything')
  const url = '/v1/accounts/0x1/modules?ledger_version=5'
  for (
    const body of [
      { all: false },
      { all: 'true' },
      { all: 1 },
      { all: null },
      { all: true, url },
      { all: false, url },
      { ALL: true },
      '{"all":true,"all":true}',
      '{"all":true,"all":false}',
      {},
      [],
      'null',
      '5',
      '"all"',
      '',
      '{',
      { method: 'GET' },
      { url: 5 },
      { url: null },
      { url: [url] },
      { url, method: 5 },
      { url, method: null },
      { url, headers: {} },
      [{ url }]
    ]
  ) t.throws(() => read(body), { status: 400, code: 'invalid_input' }, JSON.stringify(body))
  t.throws(
    () => read('{"all":true,"method":"GET"}'),
    { status: 400, code: 'invalid_input' },
    'half a read must not purge everything'
  )
  t.throws(() => read('{"all":true,"body":{}}'), { status: 400, code: 'invalid_input' })
})

t.test('a purge of an account takes any spelling of an address, and nothing beside it', async t => {
  const account = `0x${'ab'.padStart(64, '0')}`
  for (const text of ['0xab', 'AB', '0x0ab', account]) t.same(read({ account: text }), { all: false, account })
  for (const wrong of ['', '0x', '0xg', `${account}0`, 5, null, ['0xab']]) {
    t.throws(() => read({ account: wrong }), { status: 400, code: 'invalid_input' }, String(wrong))
  }
  for (const more of [{ all: true }, { url: '/v1/info' }, { method: 'GET' }]) {
    t.throws(() => read({ account, ...more }), { status: 400, code: 'invalid_input' })
  }
})

t.test('a purge of a read that no client can send is rejected with 400', async t => {
  const url = '/v1/tables/0xab/item?ledger_version=5'
  const body = { key_type: 'u64', value_type: 'u64', key: '7' }
  for (
    const wrong of [
      { url: '' },
      { url: '/' },
      { url: '/v1/-/healthy' },
      { url: '/v1/transactions', method: 'POST' },
      { url: '/v2/info' },
      { url: 'v1/info' },
      { url: '/v1/accounts/0xg/modules' },
      { url: '/v1/accounts/0x1/modules?ledger_version=x' },
      { url: '/v1/accounts/0x1/modules?limit=1&limit=1' },
      { url: '/v1/blocks/by_version/-1' },
      { url: '/v1/accounts/0x1/modules?ledger_version=1 2' },
      { url: '/v1/info', method: 'get' },
      { url: '/v1/info', method: 'POST' },
      { url: '/v1/info', method: '' },
      { url },
      { url, method: 'GET', body },
      { url, method: 'POST' },
      { url, method: 'POST', body: {} },
      { url, method: 'POST', body: [] },
      { url, method: 'POST', body: 7 },
      { url, method: 'POST', body: null },
      { url, method: 'POST', body: 'nonsense' },
      { url, method: 'POST', body: { ...body, key_type: '' } }
    ]
  ) t.throws(() => read(wrong), { status: 400, code: 'invalid_input' }, JSON.stringify(wrong))
})

t.test('a purge encoded for another process decodes to the same one', async t => {
  const body = '{"key_type":"u64","value_type":"u64","key":"007"}'
  const item = { method: 'POST', url: '/v1/tables/0x5eed/item?ledger_version=5', body: JSON.parse(body) as unknown }
  const requests = [
    item,
    { url: '/v1/accounts/1/modules?limit=02&ledger_version=%2B5&start=00ab' },
    { url: '/v1/blocks/by_version/5?with_transactions=true' },
    { url: `/v1/accounts/0x1/events/${encodeURIComponent('0x1::a::B<0x2::c::D, u8>')}/e?start=5` },
    { url: '/v1/info' },
    { account: '0xab' }
  ]
  for (const request of requests) {
    const wanted = readPurge(Buffer.from(JSON.stringify(request)))
    if (wanted.all) throw new Error('not everything')
    t.same(readPurge(encodePurge(wanted)), wanted, JSON.stringify(request))
  }
})

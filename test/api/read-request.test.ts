import fc from 'fast-check'
import t from 'tap'
import { endpoints } from '../../src/api/endpoints.js'
import { atVersion, keysOf, targetOf, type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { casesIn } from '../support/cases.js'
import { check, seedTitle } from '../support/properties.js'
import { type RequestVariant, sameRequests } from '../support/request-variants.js'

const space = { name: 'space' }

interface TableKeys {
  readonly type: string
  readonly keys: readonly [string, string]
  readonly isOne: boolean
}

interface InvalidRead {
  readonly why: string
  readonly target: string
  readonly method?: string
  readonly body?: string
  /** Null sends none. */
  readonly contentType?: string | null
  readonly status?: number
}

interface Sent {
  method?: string
  accept?: string | undefined
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
  })
}

const keyOf = (target: string, sent?: Sent): string => {
  const found = read(target, sent)
  if (found === undefined) throw new Error(`no read at ${target}`)
  return keysOf(found, space).value
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

for (const endpoint of endpoints) {
  t.test(`every variant of ${endpoint.name} gives one key and one upstream request (${seedTitle})`, async t => {
    const meaningOf = ({ target, body, ...sent }: RequestVariant): string => {
      const given = { ...sent, ...body !== undefined && { body } }
      return rejectionOf(target, given)?.message ?? `${keyOf(target, given)} ${upstreamOf(target, given)}`
    }
    const met = new Set<string>()
    check(
      fc.property(sameRequests(endpoint), ([plain, written]) => {
        met.add(meaningOf(plain))
        return meaningOf(plain) === meaningOf(written)
      }),
      60
    )
    t.ok(endpoint.path.length + Object.keys(endpoint.query).length < 3 || met.size > 10, `${met.size} reads`)
  })
}

t.test('a table key has one key for texts that full nodes read alike, and only for them', async t => {
  for (const { type, keys: [a, b], isOne } of casesIn<TableKeys>('table-keys.jsonl')) {
    const [first, second] = [keyOf(item, { body: body(a, type) }), keyOf(item, { body: body(b, type) })]
    t.equal(first === second, isOne, `${type}: ${a} and ${b}`)
  }
  const others = [
    keyOf(item, { body: body('"1"', 'u64', 'u64') }),
    keyOf(item, { body: body('"1"', 'u128', 'u64') }),
    keyOf(item, { body: body('"1"', 'u64', 'u8') }),
    keyOf('/v1/tables/0xac/item', { body: body('"1"', 'u64', 'u64') })
  ]
  t.equal(new Set(others).size, 4, 'types and table count')
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
    keysOf(read(modules) as Read, { name: 'other' }).value
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
    keysOf(atVersion(read(modules) as Read, 5n), space).value,
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

const invalid = casesIn<InvalidRead>('invalid-reads.jsonl')
for (const why of new Set(invalid.map(each => each.why))) {
  t.test(why, async t => {
    for (const { target, status = 400, contentType, ...sent } of invalid.filter(each => each.why === why)) {
      const rejection = rejectionOf(target, {
        ...sent,
        ...(contentType === undefined ? {} : { contentType: contentType ?? undefined })
      })
      const code = status === 400 ? 'invalid_input' : 'web_framework_error'
      t.match(rejection, { status, code }, `${target} ${sent.body} ${contentType}`)
      const members = Object.keys(JSON.parse(rejection?.body ?? '{}'))
      t.same(members, ['message', 'error_code', 'vm_error_code'], 'in the node\'s shape')
    }
  })
}

t.test('a body is refused if it is nested deeper than nodes accept, not UTF-8, or not JSON', async t => {
  const nested = (depth: number): Sent => ({ body: body('['.repeat(depth) + ']'.repeat(depth)) })
  t.equal(rejectionOf(item, nested(126)), undefined)
  for (const depth of [127, 20_000]) t.match(rejectionOf(item, nested(depth)), { status: 400, code: 'invalid_input' })
  const bytes = Buffer.from([...Buffer.from(body('"')), 0xff, 0xfe])
  t.match(rejectionOf(item, { body: bytes }), { status: 400 }, 'not UTF-8')
  const longType = `{"function":"0x1::a::b","type_arguments":["${'u'.repeat(70_000)}"],"arguments":[]}`
  t.match(rejectionOf('/v1/view', { body: longType }), { status: 400 })
  const types = [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/vnd.api+json',
    'application/json ;x=y'
  ]
  for (const contentType of types) {
    t.equal(rejectionOf(item, { body: body('"1"'), contentType }), undefined, contentType)
  }
})

t.test('an unknown route is not a read, and HEAD is GET', async t => {
  const routes = '/ /v1// /v1/. /v2/info /v1/info/ /v1//info /v1/blocks/./by_version/5 /v1/blocks/by_version/5/../6 ' +
    '/V1/info /v1/tables/0x1 * /v1/%69nfo'
  for (const target of ['', ...routes.split(' ')]) t.equal(matchEndpoint(target, 'GET'), undefined, target)
  t.equal(keyOf(modules, { method: 'HEAD' }), keyOf(modules))
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

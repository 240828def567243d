import { type IncomingHttpHeaders } from 'node:http'
import t, { type Test } from 'tap'
import { headerNamesOf, positionHeaders } from '../../src/api/position.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { type AllowedOrigins, Cors } from '../../src/http/cors.js'

const page = 'https://explorer.example'
const families = ['x-node-', 'x-aptos-']
const open = new Cors('*')

// Converts a flat header list to a record, and fails on duplicate names.
function record (t: Test, lines: readonly string[]): Record<string, string> {
  const entries = lines.flatMap((name, at) => at % 2 === 0 ? [[name, lines[at + 1] ?? ''] as const] : [])
  const found = Object.fromEntries(entries)
  t.equal(Object.keys(found).length * 2, lines.length, 'each header once, with a value')
  return found
}

function exposed (cors: Cors, of: readonly string[]): string[] {
  const lines = cors.headersFor(page, of)
  return (lines[lines.indexOf('access-control-expose-headers') + 1] ?? '').split(', ')
}

function preflight (origins: AllowedOrigins, change: IncomingHttpHeaders = {}): ReturnType<Cors['preflight']> {
  return new Cors(origins).preflight({ origin: page, 'access-control-request-method': 'GET', ...change })
}

t.test('a page of any origin may read with credentials, as it may at a full node', async t => {
  for (const origin of [page, 'http://localhost:3000', 'null', 'chrome-extension://abc', 'x'.repeat(512)]) {
    t.ok(open.isAllowedOrigin(origin), origin)
    t.match(record(t, open.headersFor(origin, families)), {
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true'
    })
  }
})

t.test('CORS headers do not include Vary, which the caller sets', async t => {
  t.same(Object.keys(record(t, open.headersFor(page, families))), [
    'access-control-allow-origin',
    'access-control-allow-credentials',
    'access-control-expose-headers'
  ])
})

t.test('a response to a client without an Origin has no CORS headers', async t => {
  t.same(open.headersFor(undefined, families), [])
  t.notOk(open.isAllowedOrigin(undefined))
})

t.test('a value that is not one origin is never echoed, so no client can inject headers', async t => {
  for (
    const origin of [
      '',
      ' ',
      `${page}, https://other.example`,
      `${page}\r\nset-cookie: a=b`,
      `${page}\0`,
      'https://ünder.example',
      '\u007f',
      'x'.repeat(513)
    ]
  ) {
    t.same(open.headersFor(origin, families), [], JSON.stringify(origin))
    t.notOk(open.isAllowedOrigin(origin))
    t.equal(preflight('*', { origin }), undefined, 'it makes no preflight either')
    t.same(new Cors([origin]).headersFor(origin, families), [], 'not even if configured')
  }
})

t.test('if origins are listed, a page of any other may not read', async t => {
  const listed = new Cors([page, 'null'])
  t.equal(record(t, listed.headersFor(page, families))['access-control-allow-origin'], page)
  t.ok(listed.isAllowedOrigin('null'))
  for (
    const origin of [
      'https://other.example',
      `${page}:443`,
      `${page}/`,
      page.toUpperCase(),
      `${page}.evil.example`,
      '*'
    ]
  ) {
    t.same(listed.headersFor(origin, families), [], origin)
    t.notOk(listed.isAllowedOrigin(origin))
  }
  t.same(new Cors([]).headersFor(page, families), [], 'an empty list allows none')
})

t.test('a page can read every header of the position and response, under each header prefix', async t => {
  const position = {
    chainId: 4,
    head: { version: 9n, timestampUsec: 9n, epoch: 1n, blockHeight: 3n },
    oldest: { version: 0n, blockHeight: 0n }
  }
  const names = families.flatMap(family => [
    ...positionHeaders(position, headerNamesOf(family)).filter((_text, at) => at % 2 === 0),
    `${family}cursor`,
    `${family}gas-used`
  ])
  t.equal(names.length, 18)
  const exposedNames = exposed(open, families)
  for (const name of [...names, 'x-aptos-archival-endpoint', 'etag', 'cache-status', 'retry-after']) {
    t.ok(exposedNames.includes(name), name)
  }
  t.equal(new Set(exposedNames).size, exposedNames.length)
})

t.test('once an upstream\'s header prefix is learned, pages can read its headers', async t => {
  const cors = new Cors('*')
  t.notOk(exposed(cors, ['x-node-']).some(name => name.startsWith('x-aptos-')))
  t.ok(exposed(cors, families).includes('x-aptos-cursor'))
  t.ok(
    exposed(cors, ['x-node-', 'x-other-']).includes('x-other-cursor'),
    'another prefix, with the same number of prefixes'
  )
  t.notOk(exposed(cors, ['x-node-', 'x-other-']).includes('x-aptos-cursor'))
  const growing = ['x-node-']
  cors.headersFor(page, growing)
  growing.push('x-aptos-')
  t.ok(exposed(cors, growing).includes('x-aptos-cursor'), 'also in the same array')
})

t.test('a preflight response is the same as a full node\'s', async t => {
  const names = 'content-type, x-aptos-client'
  const grant = preflight('*', { 'access-control-request-method': 'POST', 'access-control-request-headers': names })
  t.equal(grant?.status, 200)
  t.same(record(t, grant?.rawHeaders ?? []), {
    'access-control-allow-origin': page,
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'GET,POST',
    'access-control-allow-headers': names,
    'access-control-max-age': '86400',
    vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
    'content-length': '0'
  })
  t.equal(preflight([page])?.status, 200, 'also for a listed origin')
})

t.test('a preflight that names no headers allows any', async t => {
  for (const names of [undefined, '']) {
    const grant = preflight('*', names === undefined ? {} : { 'access-control-request-headers': names })
    t.equal(record(t, grant?.rawHeaders ?? [])['access-control-allow-headers'], '*')
  }
})

t.test('an OPTIONS request without Origin and requested method is no preflight', async t => {
  t.equal(open.preflight({}), undefined)
  t.equal(open.preflight({ origin: page }), undefined)
  t.equal(open.preflight({ 'access-control-request-method': 'GET' }), undefined)
  t.equal(new Cors([]).preflight({ origin: page }), undefined)
})

t.test('a preflight for something not allowed is rejected in the full node\'s error format', async t => {
  const expectRejection = (message: string, response: ReturnType<Cors['preflight']>): void => {
    t.ok(response instanceof ErrorResponse)
    t.match(response, { status: 403, code: 'web_framework_error', message })
  }
  for (const method of ['PUT', 'DELETE', 'HEAD', 'get', '', 'GET, POST']) {
    expectRejection('request-method not allowed', preflight('*', { 'access-control-request-method': method }))
  }
  expectRejection(
    'origin not allowed',
    preflight(['https://other.example'], { 'access-control-request-method': 'PUT' })
  )
  for (const names of ['a\r\nset-cookie: b', 'a;b', 'a:b', '"a"', 'é', 'a\0']) {
    expectRejection('request-headers not allowed', preflight('*', { 'access-control-request-headers': names }))
  }
  t.equal(preflight('*', { 'access-control-request-headers': 'a'.repeat(10_000) })?.status, 200)
})

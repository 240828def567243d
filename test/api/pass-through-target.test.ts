import fc from 'fast-check'
import t, { type Test } from 'tap'
import { ErrorResponse } from '../../src/api/error-response.js'
import {
  originFormOf,
  methodNotAllowedError,
  forwardedTarget,
  type PassThroughScope,
  requireLegalCharacters,
  versionInTarget
} from '../../src/api/pass-through-target.js'
import { check, seedTitle } from '../support/properties.js'

/** Returns the target that goes upstream, or the status of the rejection. */
function fate (target: string, method = 'GET', policy: PassThroughScope = 'reads'): string | number {
  try {
    return forwardedTarget(target, method, policy)
  } catch (error) {
    if (error instanceof ErrorResponse) return error.status
    throw error
  }
}

function expectRejection (
  t: Test,
  target: string,
  expected: { status: number, code: string, rawHeaders?: string[] },
  method = 'GET',
  policy: PassThroughScope = 'reads'
): void {
  t.throws(
    () => {
      forwardedTarget(target, method, policy)
    },
    expected,
    `${method} ${target} of ${policy}`
  )
}

t.test('passThrough: reads forwards every GET and HEAD, and rejects unknown POST routes', t => {
  const passed: [string, string][] = [
    ['GET', '/v1'],
    ['HEAD', '/v1'],
    ['GET', '/v1/'],
    ['GET', '/v1?a'],
    ['GET', '/v1/spec.json'],
    ['HEAD', '/v1/accounts/0x1'],
    ['GET', '/v1/view'],
    ['GET', '/v1/tables/0x1/item'],
    ['GET', '/v1/transactions/by_hash/0xab'],
    ['GET', '/v1/-/healthy'],
    ['GET', '/v1/no/such/thing']
  ]
  for (const [method, target] of passed) t.equal(fate(target, method), target, `${method} ${target}`)
  const rejected = [
    '/v1',
    '/v1/',
    '/v1/transactions',
    '/v1/transactions/batch',
    '/v1/transactions/simulate',
    '/v1/transactions/encode_submission',
    '/v1/view/',
    '/v1/View',
    '/v1/view/x',
    '/v1/%76iew',
    '/v1//view',
    '/v1/tables/0xab/raw_item/',
    '/v1/tables//raw_item',
    '/v1/tables/0xab/item/x',
    '/v1/tables/a/b/raw_item',
    '/v1/x/v1/view',
    '/v1/experimental/state_values/raw',
    '/v1/transactions?/v1/view',
    '/v1/transactions?x=/v1/tables/0x1/raw_item'
  ]
  for (const target of rejected) expectRejection(t, target, { status: 404, code: 'web_framework_error' }, 'POST')
  t.end()
})

t.test('passThrough: none forwards nothing, and all forwards every path under /v1 with any method', t => {
  for (
    const [method, target] of [['GET', '/v1'], ['GET', '/v1/accounts/0x1'], ['HEAD', '/v1/spec.json'], [
      'POST',
      '/v1/view'
    ], ['POST', '/v1/transactions']] as const
  ) {
    expectRejection(t, target, { status: 404, code: 'web_framework_error' }, method, 'none')
    t.equal(fate(target, method, 'all'), target)
  }
  t.end()
})

t.test('passThrough: transactions forwards reads and four routes of transactions, no other POST', t => {
  const routes = ['', '/batch', '/simulate', '/encode_submission'].map(end => `/v1/transactions${end}`)
  for (const target of [...routes, '/v1/transactions/simulate?estimate_gas_unit_price=true']) {
    t.equal(fate(target, 'POST', 'transactions'), target)
    t.throws(() => forwardedTarget(target, 'POST', 'reads'), { message: /needs passThrough: transactions$/ })
  }
  for (const [method, target] of [['GET', '/v1/x'], ['HEAD', '/v1/spec.json']] as const) {
    t.equal(fate(target, method, 'transactions'), target)
  }
  for (
    const target of [
      '/v1/view/x',
      '/v1/transactions/',
      '/v1/transactions/other',
      '/v1/transactions%2Fbatch',
      '/v1/set_failpoint',
      '/v1/accounts/0x1'
    ]
  ) expectRejection(t, target, { status: 404, code: 'web_framework_error' }, 'POST', 'transactions')
  t.throws(() => forwardedTarget('/v1/view/x', 'POST', 'transactions'), { message: /needs passThrough: all$/ })
  expectRejection(t, '/v1/transactions', { status: 405, code: 'web_framework_error' }, 'DELETE', 'transactions')
  t.end()
})

t.test('the failpoint route is rejected, in every encoding that a gateway may decode', t => {
  for (
    const path of [
      'set_failpoint',
      'set%5Ffailpoint',
      'set%255ffailpoint',
      '%73et_failpoint',
      'set_failpoint/',
      '/set_failpoint',
      'x/set_failpoint',
      'x%2Fset_failpoint',
      '%2fset_failpoint',
      '%252Fset_failpoint',
      'x%5Cset_failpoint',
      'x\\set_failpoint',
      'set_failpoint;x',
      'set_failpoint%3Fx',
      'set_failpoint%2523'
    ]
  ) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      expectRejection(t, `/v1/${path}?name=a&actions=panic`, { status: 404, code: 'web_framework_error' }, method)
    }
  }
  t.equal(fate('/v1/x?set_failpoint'), '/v1/x?set_failpoint', 'a query is not a route')
  t.equal(fate('/v1/reset_failpoints'), '/v1/reset_failpoints')
  t.end()
})

t.test('other methods get 405 with an Allow header, and paths outside /v1 get 404', t => {
  for (const method of ['OPTIONS', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'get']) {
    for (const policy of ['reads', 'none', 'all'] as const) {
      expectRejection(
        t,
        '/v1/x',
        { status: 405, code: 'web_framework_error', rawHeaders: ['allow', 'GET, HEAD, POST'] },
        method,
        policy
      )
    }
  }
  for (
    const target of [
      '',
      '/',
      '*',
      '/v1x',
      '/v2/x',
      '/V1/x',
      '/x/v1/y',
      '//v1/x',
      '/%76%31/x',
      '/v1%2Fx',
      '\\v1\\x',
      '?/v1/x',
      '/?/v1/x',
      'v1/x',
      'example:80',
      '/metrics'
    ]
  ) {
    for (const method of ['GET', 'POST', 'DELETE']) {
      expectRejection(t, target, { status: 404, code: 'web_framework_error' }, method, 'all')
    }
  }
  t.match(methodNotAllowedError('GET'), { status: 405, rawHeaders: ['allow', 'GET'] })
  t.end()
})

t.test('only the path of an absolute target counts, so it cannot lead to another host', t => {
  for (
    const start of [
      'http://evil.example',
      'https://evil.example:8443',
      'HTTP://a:b@evil.example',
      'http://',
      'hTTpS://[::1]:1'
    ]
  ) {
    t.equal(fate(`${start}/v1/x?y=http://z/v1`), '/v1/x?y=http://z/v1')
    for (const rest of ['', '?/v1/x', '/other', '//v1/x', '/http://b/v1/x']) {
      t.equal(fate(start + rest), 404, start + rest)
    }
    t.equal(fate(`${start}/v1/../x`), 400)
    t.equal(originFormOf(`${start}/v1/http://b/v1`), '/v1/http://b/v1', 'the scheme is removed once')
  }
  for (const target of ['ftp://evil.example/v1/x', 'file:///v1/x', 'javascript:/v1/x', 'x http://evil/v1/x']) {
    t.equal(fate(target), 404, target)
  }
  t.end()
})

t.test('a dot segment is rejected in every encoding, since a gateway could resolve it out of /v1', t => {
  for (
    const dots of [
      '.',
      '..',
      '%2e',
      '%2E%2e',
      '.%2e',
      '%2e.',
      '%252e%252e',
      '%252E.',
      '..%2f',
      '..%2Fx',
      'x%2f..',
      '%2f..%2f',
      '..%252f',
      'x%252F..',
      '..\\',
      'x\\..\\y',
      '..%5c',
      '..%5Cx',
      '..%255c',
      'x%5C%2e%2e',
      '%2e%2e%2f%2e%2e',
      '..;',
      '..;x=y',
      '%2e%2e%3b',
      '..%3F',
      '..%23x',
      '..%253fx'
    ]
  ) {
    for (const path of [`/v1/${dots}`, `/v1/${dots}/x`, `/v1/x/${dots}`, `/v1/x/${dots}/y?z`]) {
      for (const policy of ['reads', 'none', 'all'] as const) {
        expectRejection(t, path, { status: 400, code: 'invalid_input' }, 'GET', policy)
      }
    }
    expectRejection(t, `/v1/tables/${dots}/raw_item`, { status: 400, code: 'invalid_input' }, 'POST')
  }
  for (
    const target of [
      '/v1/...',
      '/v1/x..',
      '/v1/..x',
      '/v1/.x',
      '/v1/a..b',
      '/v1/x?..',
      '/v1/x?/../',
      '/v1/x?%2e%2e%2f',
      '/v1/0x1::a%2Fb'
    ]
  ) t.equal(fate(target), target, target)
  t.end()
})

t.test('a target that no node reads, or that does not decode, is rejected', t => {
  for (const path of ['<', '>', '`', '#', '\u00e9', ' ', '\t', '\u007f', '\u0000', '\ud800']) {
    expectRejection(t, `/v1/x${path}`, { status: 400, code: 'invalid_input' })
  }
  for (const query of ['"', '<', '>', '#', '\u00e9', ' ', '\u007f']) {
    expectRejection(t, `/v1/x?y=${query}`, { status: 400, code: 'invalid_input' })
  }
  for (const path of ['%', '%4', '%zz', '%c0%af', '%ff', '%25', '%25zz']) {
    expectRejection(t, `/v1/x${path}`, { status: 400, code: 'invalid_input' })
  }
  for (
    const target of [
      '/v1/"',
      '/v1/{|}^\\~',
      '/v1/x?`',
      '/v1/x?%',
      '/v1/x?%zz',
      '/v1/x??',
      '/v1/x?',
      '/v1/x;y,z:@!$&\'()*+=',
      '/v1/x%20%3C%3E%253Cy'
    ]
  ) {
    t.equal(fate(target), target)
    t.doesNotThrow(() => {
      requireLegalCharacters(target)
    })
  }
  t.throws(() => {
    requireLegalCharacters('/v1/<')
  }, { status: 400, code: 'invalid_input' })
  t.end()
})

const piece = fc.constantFrom(
  '.',
  '..',
  '%2e',
  '%2E',
  '%252e',
  '/',
  '//',
  '%2f',
  '%252F',
  '\\',
  '%5c',
  '%255C',
  'v1',
  'x',
  '%41',
  '?',
  '#',
  ':',
  '@',
  ';',
  '%3F',
  '%23',
  '%2523',
  '%25',
  'http://evil',
  '<',
  '\u00e9'
)

t.test(`a forwarded target is unchanged, and stays under /v1 even if decoded twice (${seedTitle})`, t => {
  let passed = 0
  check(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.constantFrom('reads', 'all'), (pieces, policy) => {
      const target = `/v1/${pieces.join('')}`
      const got = fate(target, 'GET', policy as PassThroughScope)
      if (got === target) passed++
      if (got !== target) return got === 400 || got === 404
      let [path = ''] = target.split('?', 1)
      return [0, 1, 2].every(round => {
        if (round > 0) path = decodeURIComponent(path)
        const resolved = new URL(`http://node${path}`)
        return resolved.host === 'node' && /^\/v1(?:\/|$)/.test(resolved.pathname)
      })
    }),
    2000
  )
  t.ok(passed > 100, 'some targets are forwarded')
  t.end()
})

t.test('the version in an unknown route is read if unambiguous, since it only ranks upstreams', async t => {
  const cases: Array<[query: string, version: bigint | undefined]> = [
    ['', undefined],
    ['?', undefined],
    ['?ledger_version=5', 5n],
    ['?limit=1&ledger_version=007', 7n],
    ['?ledger_version=%2B5', 5n],
    ['?ledger_version=5&ledger_version=6', 5n],
    ['?ledger_version=+5', undefined],
    ['?ledger_version=', undefined],
    ['?ledger_version=-1', undefined],
    ['?ledger_version=0x5', undefined],
    ['?ledger_version=123456789012345678901', undefined]
  ]
  for (const [query, version] of cases) t.equal(versionInTarget(`/v1/accounts/0x1/memo${query}`), version, query)
  t.equal(versionInTarget('/v1/transactions/auxiliary_info?start_version=5&limit=2'), 5n)
  t.equal(versionInTarget('/v1/accounts/0x1/transactions?start=5'), undefined, 'a sequence number')
})

t.test('a rejected route names the value of passThrough that would forward it', t => {
  const cases: [string, string, PassThroughScope, string][] = [
    [
      'POST',
      '/v1/transactions',
      'reads',
      'not forwarded: passThrough is reads, and this request needs passThrough: transactions'
    ],
    [
      'POST',
      '/v1/transactions/simulate',
      'none',
      'not forwarded: passThrough is none, and this request needs passThrough: transactions'
    ],
    ['GET', '/v1/spec.json', 'none', 'not forwarded: passThrough is none, and this request needs passThrough: reads'],
    ['GET', '/v1/set_failpoint', 'none', 'not forwarded: passThrough is none, and this request needs passThrough: all']
  ]
  for (const [method, target, policy, message] of cases) {
    t.throws(() => forwardedTarget(target, method, policy), { status: 404, code: 'web_framework_error', message })
  }
  t.throws(
    () => forwardedTarget('/v2/x', 'GET', 'none'),
    { message: 'not found' },
    'no value forwards paths outside /v1'
  )
  t.end()
})

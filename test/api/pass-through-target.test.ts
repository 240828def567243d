import fc from 'fast-check'
import t from 'tap'
import { ErrorResponse } from '../../src/api/error-response.js'
import { forwardedTarget, type PassThroughScope, versionInTarget } from '../../src/api/pass-through-target.js'
import { casesIn } from '../support/cases.js'
import { check, seedTitle } from '../support/properties.js'

/** A target, and the status of its rejection; without one it is forwarded unchanged, or as `forwarded`. */
interface Case {
  readonly why: string
  readonly target: string
  readonly method?: string
  readonly passThrough?: PassThroughScope
  readonly status?: number
  readonly message?: string
  readonly forwarded?: string
}

const cases = casesIn<Case>('pass-through.jsonl')

/** Returns the target that goes upstream, or the rejection. */
function fate (target: string, method = 'GET', scope: PassThroughScope = 'reads'): string | ErrorResponse {
  try {
    return forwardedTarget(target, method, scope)
  } catch (error) {
    if (error instanceof ErrorResponse) return error
    throw error
  }
}

for (const why of new Set(cases.map(each => each.why))) {
  t.test(why, async t => {
    for (const { target, method, passThrough, status, message, forwarded } of cases.filter(each => each.why === why)) {
      const got = fate(target, method, passThrough)
      const name = `${method ?? 'GET'} ${target} with ${passThrough ?? 'reads'}`
      if (status === undefined) t.equal(got, forwarded ?? target, name)
      else {
        t.match(got, {
          status,
          code: status === 400 ? 'invalid_input' : 'web_framework_error',
          ...(message === undefined ? {} : { message }),
          ...(status === 405 ? { rawHeaders: ['allow', 'GET, HEAD, POST'] } : {})
        }, name)
      }
    }
  })
}

// Parts of a target that gateways could read in different ways.
const pieces =
  '. .. %2e %2E %252e / // %2f %252F \\ %5c %255C v1 x %41 ? # : @ ; %3F %23 %2523 %25 http://evil < \u00e9'
    .split(' ')

t.test(`a forwarded target is unchanged, and stays under /v1 even if decoded twice (${seedTitle})`, async t => {
  let passed = 0
  check(
    fc.property(
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }),
      fc.constantFrom('reads', 'all'),
      (parts, scope) => {
        const target = `/v1/${parts.join('')}`
        const got = fate(target, 'GET', scope as PassThroughScope)
        if (got === target) passed++
        if (got instanceof ErrorResponse) return got.status === 400 || got.status === 404
        if (got !== target) return false
        let [path = ''] = target.split('?', 1)
        return [0, 1, 2].every(round => {
          if (round > 0) path = decodeURIComponent(path)
          const resolved = new URL(`http://node${path}`)
          return resolved.host === 'node' && /^\/v1(?:\/|$)/.test(resolved.pathname)
        })
      }
    ),
    2000
  )
  t.ok(passed > 100, 'some targets are forwarded')
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

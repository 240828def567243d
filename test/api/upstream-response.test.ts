import t from 'tap'
import {
  deniesVersion,
  reportsInvalidInput,
  reportsNotFound,
  reportsPruned,
  type UpstreamResponse
} from '../../src/api/upstream-response.js'

const responseOf = (status: number, body: string): UpstreamResponse => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(body),
  rest: undefined,
  isFramed: true,
  stamped: undefined,
  release: undefined
})
const errorOf = (status: number, code: string): UpstreamResponse =>
  responseOf(status, JSON.stringify({ message: 'no', error_code: code, vm_error_code: null }))

t.test('only a 404 for a version, block or transaction denies a version', async t => {
  for (const code of ['version_not_found', 'block_not_found', 'transaction_not_found']) {
    t.ok(deniesVersion(errorOf(404, code)), code)
    t.notOk(deniesVersion(errorOf(410, code)), `410 ${code}`)
  }
  t.notOk(deniesVersion(errorOf(404, 'resource_not_found')), 'a value may be missing at a version that exists')
  t.notOk(deniesVersion(responseOf(404, 'version_not_found')), 'no JSON')
})

t.test('a not-found of any value is distinguished from an unknown route', async t => {
  t.ok(reportsNotFound(errorOf(404, 'resource_not_found')))
  t.notOk(reportsNotFound(errorOf(404, 'web_framework_error')))
  t.notOk(reportsNotFound(errorOf(500, 'resource_not_found')))
  t.notOk(reportsNotFound(responseOf(404, '[]')))
})

t.test('only a 400 reports invalid input', async t => {
  t.ok(reportsInvalidInput(errorOf(400, 'invalid_input')))
  t.notOk(reportsInvalidInput(errorOf(400, 'web_framework_error')))
  t.notOk(reportsInvalidInput(errorOf(404, 'invalid_input')))
})

t.test('an upstream reports pruned history with a 410, or with the 500 of older releases', async t => {
  t.ok(reportsPruned(responseOf(410, '{}')))
  t.ok(reportsPruned(responseOf(500, '{"message":"First requested event is probably pruned."}')))
  t.notOk(reportsPruned(responseOf(500, '{"message":"it is unhealthy"}')))
  t.notOk(reportsPruned(responseOf(404, 'pruned')))
})

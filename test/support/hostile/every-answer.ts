import { type Test } from 'tap'
import { type WireAnswer } from './answers.js'
import { head } from './node-answers.js'

// The codes of the specification: clients fail on others.
const codes = new Set([
  'account_not_found', 'resource_not_found', 'module_not_found', 'struct_field_not_found', 'version_not_found', 'transaction_not_found', 'table_item_not_found', 'block_not_found', 'state_value_not_found',
  'version_pruned', 'block_pruned', 'invalid_input', 'invalid_transaction_update', 'sequence_number_too_old', 'vm_error', 'rejected_by_filter', 'health_check_failed', 'mempool_is_full', 'internal_error',
  'web_framework_error', 'bcs_not_supported', 'api_disabled'
])

const positionNames = ['chain-id', 'ledger-version', 'ledger-oldest-version', 'ledger-timestampusec', 'epoch', 'block-height', 'oldest-block-height'].map(name => `x-node-${name}`)

/** Checks what is true of every answer of the public listener, whatever was asked. */
export function checkEveryAnswer (t: Test, { status, head: lines, headers, body }: WireAnswer): void {
  const cacheStatus = headers.get('cache-status') ?? ''
  t.match(cacheStatus, /^varve; (?:hit; detail=(?:memory|pruned)|fwd=uri-miss|fwd=bypass|detail=refused)/, 'it says what became of the request')
  t.notOk(status === 500, 'nothing happens that nobody foresaw')
  t.notMatch(lines, /^(?:set-cookie|trailer|te|upgrade|proxy-[a-z]+|x-powered-by|server):/im, 'it hands on nothing of a single connection or client')
  t.notMatch(lines, /[^\x20-\x7e\r\n]/, 'its lines are plain text')
  const lengths = lines.match(/^(?:content-length|transfer-encoding):/gim) ?? []
  t.ok(lengths.length <= 1, 'its end is told in one way')
  const stamped = positionNames.filter(name => headers.has(name))
  if (stamped.length > 0) {
    t.same(stamped, positionNames, 'a position is whole')
    t.equal(headers.get('x-node-ledger-version'), String(head), 'and never behind the one that was shown')
  }
  if (status < 400 || !cacheStatus.includes('detail=refused') || body === '') return
  const error = JSON.parse(body) as Record<string, unknown>
  t.same(Object.keys(error), ['message', 'error_code', 'vm_error_code'], 'an error of varve\'s has the node\'s shape')
  t.ok(codes.has(String(error['error_code'])), `${String(error['error_code'])} is a code of the specification`)
}

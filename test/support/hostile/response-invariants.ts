import { isDeepStrictEqual } from 'node:util'
import { ownOutcomeIn } from '../cache-status.js'
import { type HostileResponse } from './split-responses.js'
import { headVersion } from './upstream-responses.js'

// Error codes of nodes; clients fail on others (docs/node-behaviour.md, "Errors").
const codes = new Set([
  'account_not_found',
  'resource_not_found',
  'module_not_found',
  'struct_field_not_found',
  'version_not_found',
  'transaction_not_found',
  'table_item_not_found',
  'block_not_found',
  'state_value_not_found',
  'version_pruned',
  'block_pruned',
  'invalid_input',
  'invalid_transaction_update',
  'sequence_number_too_old',
  'vm_error',
  'rejected_by_filter',
  'health_check_failed',
  'node_not_bootstrapped',
  'mempool_is_full',
  'internal_error',
  'web_framework_error',
  'bcs_not_supported',
  'api_disabled'
])

const positionNames = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
].map(name => `x-node-${name}`)

const knownStatus = /^varve; (?:hit; detail=(?:memory|pruned)|fwd=uri-miss|fwd=bypass)/
const ofOneConnection = /^(?:set-cookie|trailer|te|upgrade|proxy-[a-z]+|x-powered-by|server):/im

/** Returns violations of the invariants of every response on the public listener. */
export function invariantViolations ({ status, head: lines, headers, body }: HostileResponse): string[] {
  const cacheStatus = headers.get('cache-status') ?? ''
  // Skips forwarded responses, which have the upstream's own position.
  const stamped = cacheStatus.includes('fwd=bypass') ? [] : positionNames.filter(name => headers.has(name))
  const wrong = [
    !knownStatus.test(cacheStatus) && ownOutcomeIn(cacheStatus) === undefined &&
    'it does not name the outcome of the request',
    status === 500 && 'something unforeseen happened',
    ofOneConnection.test(lines) && 'it hands on what is of one connection or client',
    /[^\x20-\x7e\r\n]/.test(lines) && 'its lines are no plain text',
    (lines.match(/^(?:content-length|transfer-encoding):/gim) ?? []).length > 1 && 'its end is framed in two ways',
    stamped.length > 0 && !isDeepStrictEqual(stamped, positionNames) && 'its position is not whole',
    stamped.length > 0 && headers.get('x-node-ledger-version') !== String(headVersion) &&
    'its position is behind the one that was shown',
    status >= 400 && ownOutcomeIn(cacheStatus) !== undefined && body !== '' && !isUpstreamError(body) &&
    'an error of varve\'s has not the node\'s shape'
  ].filter(text => text !== false)
  return wrong.map(text => `${text}: ${lines}\n${body.slice(0, 200)}`)
}

function isUpstreamError (body: string): boolean {
  const error = JSON.parse(body) as Record<string, unknown>
  return isDeepStrictEqual(Object.keys(error), ['message', 'error_code', 'vm_error_code']) &&
    codes.has(String(error['error_code']))
}

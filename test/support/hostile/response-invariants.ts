import { ownOutcomeIn } from '../cache-status.js'
import { headVersion, position } from './fresh-response.js'
import { type WireResponse } from './wire-client.js'

// An error in the node's shape; clients fail on other codes (docs/node-behaviour.md, "Errors").
const codes = [
  'account_not_found|resource_not_found|module_not_found|struct_field_not_found|version_not_found',
  'transaction_not_found|table_item_not_found|block_not_found|state_value_not_found|version_pruned|block_pruned',
  'invalid_input|invalid_transaction_update|sequence_number_too_old|vm_error|rejected_by_filter|health_check_failed',
  'node_not_bootstrapped|mempool_is_full|internal_error|web_framework_error|bcs_not_supported|api_disabled'
]
const upstreamError = new RegExp(
  `^\\{"message":"(?:[^"\\\\]|\\\\.)*","error_code":"(?:${codes.join('|')})","vm_error_code":(?:null|\\d+)\\}$`
)
const positionNames = Object.keys(position).map(name => name.replace('x-aptos', 'x-node'))
const knownStatus = /^varve; (?:hit; detail=(?:memory|pruned)|fwd=uri-miss|fwd=bypass)/
const ofOneConnection = /^(?:set-cookie|trailer|te|upgrade|proxy-[a-z]+|x-powered-by|server):/im

/** Returns violations of the invariants of every response on the public listener. */
export function invariantViolations ({ status, head, headers, body, isWhole }: WireResponse): string[] {
  const cacheStatus = headers.get('cache-status') ?? ''
  const isOwn = ownOutcomeIn(cacheStatus) !== undefined
  // Skips forwarded responses, which have the upstream's own position.
  const stamped = cacheStatus.includes('fwd=bypass') ? [] : positionNames.filter(name => headers.has(name))
  const wrong = [
    !isWhole && 'it is no whole response',
    !knownStatus.test(cacheStatus) && !isOwn && 'it does not name the outcome of the request',
    status === 500 && 'something unforeseen happened',
    ofOneConnection.test(head) && 'it forwards lines of one connection or client',
    /[^\x20-\x7e\r\n]/.test(head) && 'its lines are no plain text',
    (head.match(/^(?:content-length|transfer-encoding):/gim) ?? []).length > 1 && 'its end is framed in two ways',
    stamped.length % positionNames.length > 0 && 'its position is not whole',
    stamped.length > 0 && headers.get('x-node-ledger-version') !== headVersion && 'its position is behind',
    status >= 400 && isOwn && body !== '' && !upstreamError.test(body) && 'an error without the node\'s shape'
  ].filter(text => text !== false)
  return wrong.map(text => `${text}: ${head}\n${body.slice(0, 200)}`)
}

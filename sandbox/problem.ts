import { type Address, shortAddress } from './address.js'
import { printTypeTag, type StructTag } from './type-tag.js'

/** Default HTTP status of each error code; clients fail to parse any other code. */
export const statusOfCode = {
  account_not_found: 404,
  resource_not_found: 404,
  module_not_found: 404,
  struct_field_not_found: 404,
  version_not_found: 404,
  transaction_not_found: 404,
  table_item_not_found: 404,
  block_not_found: 404,
  state_value_not_found: 404,
  version_pruned: 410,
  block_pruned: 410,
  invalid_input: 400,
  invalid_transaction_update: 400,
  sequence_number_too_old: 400,
  vm_error: 400,
  bcs_not_supported: 400,
  web_framework_error: 400,
  api_disabled: 403,
  rejected_by_filter: 403,
  health_check_failed: 503,
  node_not_bootstrapped: 503,
  internal_error: 500,
  rate_limited: 500,
  mempool_is_full: 507
} as const

/** Machine-readable code of an error. */
export type ErrorCode = keyof typeof statusOfCode

/** Part of the node that raises an error; only errors of the ledger carry the position. */
export type ProblemSource = 'framework' | 'verification' | 'ledger'

/** Error response of a node. */
export class Problem extends Error {
  readonly status: number
  readonly code: ErrorCode
  readonly source: ProblemSource
  /** Status code of the virtual machine, if it raised the error. */
  readonly vmCode: number | null

  constructor (
    source: ProblemSource,
    code: ErrorCode,
    message: string,
    status: number = statusOfCode[code],
    vmCode: number | null = null
  ) {
    super(message)
    this.source = source
    this.code = code
    this.status = status
    this.vmCode = vmCode
  }
}

/** A request that the web framework rejects before the node's own code runs. */
export function frameworkProblem (message: string, status = 400): Problem {
  return new Problem('framework', 'web_framework_error', message, status)
}

/** A body that the framework cannot parse. */
export function malformedBody (reason: string): Problem {
  return frameworkProblem(`parse request payload error: ${reason}`)
}

/** A version below the oldest. */
export function versionPruned (version: bigint): Problem {
  return new Problem('ledger', 'version_pruned', `Ledger version(${version}) has been pruned`)
}

/** A version, a block or a transaction that the node does not have. */
export function notFound (code: ErrorCode, what: string, by: string): Problem {
  return new Problem('ledger', code, `${what} not found by ${by}`)
}

/** A value that the state does not have at a version; the message quotes what was asked for. */
export function stateNotFound (code: ErrorCode, what: string, by: string, version: bigint): Problem {
  return notFound(code, what, `${by} and Ledger version(${version})`)
}

/** An address without an account. */
export function accountNotFound (address: Address, version: bigint): Problem {
  return stateNotFound('account_not_found', 'Account', `Address(${shortAddress(address)})`, version)
}

/** A resource that an account does not have. */
export function resourceNotFound (address: Address, tag: StructTag, version: bigint): Problem {
  const by = `Address(${shortAddress(address)}), Struct tag(${printTypeTag(tag)})`
  return stateNotFound('resource_not_found', 'Resource', by, version)
}

/** Input that is well-formed but invalid for the ledger. */
export function invalidInput (message: string): Problem {
  return new Problem('ledger', 'invalid_input', message)
}

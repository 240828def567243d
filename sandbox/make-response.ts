import { type ErrorCode, type Problem } from './problem.js'

/** Response of the node; `content-length` and `date` are added when it is sent. */
export interface SandboxResponse {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: Buffer
}

/** Content types of a node's responses; responses of its framework have no charset. */
const contentTypes = {
  json: 'application/json; charset=utf-8',
  bcs: 'application/x-bcs',
  framework: 'application/json'
} as const

/** Position that a response is stamped with, and the prefix of its header names. */
export interface Stamp {
  readonly position: Position
  readonly family: string
}

/** Builds a response; without a stamp it has no position headers. */
export function makeResponse (
  status: number,
  type: keyof typeof contentTypes,
  body: string | Buffer,
  stamp?: Stamp
): SandboxResponse {
  return {
    status,
    headers: [
      ['content-type', contentTypes[type]],
      ...stamp === undefined ? [] : positionHeaders(stamp.position, stamp.family)
    ],
    body: Buffer.from(body)
  }
}

/** Prints an error body as nodes do: three members, in this order. */
export function printErrorBody (message: string, code: ErrorCode, vmCode: number | null = null): string {
  return JSON.stringify({ message, error_code: code, vm_error_code: vmCode })
}

/** Builds the error response of a problem. */
export function problemResponse (problem: Problem, stamp: Stamp): SandboxResponse {
  const type = problem.source === 'framework' ? 'framework' : 'json'
  return makeResponse(
    problem.status,
    type,
    printErrorBody(problem.message, problem.code, problem.vmCode),
    problem.source === 'ledger' ? stamp : undefined
  )
}

/** Builds the response of the HTTP layer to an unreadable request: no headers, no body. */
export function emptyResponse (status: number): SandboxResponse {
  return { status, headers: [], body: Buffer.alloc(0) }
}

/** Position of a node; all members come from one snapshot. */
export interface Position {
  readonly chainId: number
  readonly version: bigint
  readonly oldestVersion: bigint
  readonly timestampUsec: bigint
  readonly epoch: bigint
  readonly blockHeight: bigint
  readonly oldestBlockHeight: bigint
  /** Key of the epoch with which clients encrypt transactions. */
  readonly encryptionKey: string
}

/** Returns the seven position headers in the order in which nodes send them, and the key of the epoch. */
function positionHeaders (position: Position, family: string): Array<[string, string]> {
  return [
    [`${family}chain-id`, String(position.chainId)],
    [`${family}ledger-version`, String(position.version)],
    [`${family}ledger-oldest-version`, String(position.oldestVersion)],
    [`${family}ledger-timestampusec`, String(position.timestampUsec)],
    [`${family}epoch`, String(position.epoch)],
    [`${family}block-height`, String(position.blockHeight)],
    [`${family}oldest-block-height`, String(position.oldestBlockHeight)],
    [`${family}txn-encryption-key`, position.encryptionKey]
  ]
}

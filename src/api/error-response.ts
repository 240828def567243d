/**
 * Error codes of nodes; varve adds none, because clients fail on unknown codes (docs/node-behaviour.md, "Errors").
 */
export type ErrorCode =
  | 'invalid_input'
  | 'api_disabled'
  | 'web_framework_error'
  | 'version_not_found'
  | 'version_pruned'
  | 'internal_error'

/** The statuses that varve answers with on its own account. */
export type ErrorResponseStatus =
  | 400
  | 401
  | 403
  | 404
  | 405
  | 408
  | 410
  | 413
  | 414
  | 415
  | 417
  | 429
  | 431
  | 500
  | 503

/** An answer that varve itself gives instead of a node's: the one error type, in the node's own shape. */
export class ErrorResponse extends Error {
  readonly status: ErrorResponseStatus
  readonly code: ErrorCode
  /** Header lines that the status asks for, flat. */
  readonly rawHeaders: readonly string[]
  /** Members that gateways add to a node's own three. */
  readonly #extraMembers: Readonly<Record<string, string>>

  constructor (
    status: ErrorResponseStatus,
    code: ErrorCode,
    message: string,
    lines: readonly string[] = [],
    more: Readonly<Record<string, string>> = {}
  ) {
    super(message)
    this.status = status
    this.code = code
    this.rawHeaders = lines
    this.#extraMembers = more
  }

  /** The body that a node would send, members in its order; `vm_error_code` is always there, null when absent. */
  get body (): string {
    return JSON.stringify({ message: this.message, error_code: this.code, vm_error_code: null, ...this.#extraMembers })
  }
}

/** A value that cannot be valid, named as the client knows it. */
export const invalidInputError = (message: string): ErrorResponse => new ErrorResponse(400, 'invalid_input', message)

/** No node can answer now; clients are told when to come again. */
export const unavailableError = (message: string): ErrorResponse =>
  new ErrorResponse(503, 'internal_error', message, ['retry-after', '1'])

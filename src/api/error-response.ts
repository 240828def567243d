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

/** Statuses of the errors that varve itself creates. */
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

/** Error type of all responses that varve itself creates, in the node's own shape. */
export class ErrorResponse extends Error {
  readonly status: ErrorResponseStatus
  readonly code: ErrorCode
  /** Headers that the status requires, as a flat list of names and values. */
  readonly rawHeaders: readonly string[]
  /** Members that gateways add to the three members of a node. */
  readonly #extraMembers: Readonly<Record<string, string>>

  constructor (
    status: ErrorResponseStatus,
    code: ErrorCode,
    message: string,
    rawHeaders: readonly string[] = [],
    extraMembers: Readonly<Record<string, string>> = {}
  ) {
    super(message)
    this.status = status
    this.code = code
    this.rawHeaders = rawHeaders
    this.#extraMembers = extraMembers
  }

  /** Returns the body that a node would send, with its member order; `vm_error_code` is always present. */
  get body (): string {
    return JSON.stringify({ message: this.message, error_code: this.code, vm_error_code: null, ...this.#extraMembers })
  }
}

/** Error for a value that cannot be valid; the message uses the name that the client knows. */
export const invalidInputError = (message: string): ErrorResponse => new ErrorResponse(400, 'invalid_input', message)

/** Error for a request that fails before the API reads it, as the web framework of nodes responds. */
export const webFrameworkError = (
  status: ErrorResponseStatus,
  message: string,
  rawHeaders: readonly string[] = []
): ErrorResponse => new ErrorResponse(status, 'web_framework_error', message, rawHeaders)

/** Error for a call that the operator has not enabled. */
export const disabledError = (message: string): ErrorResponse => new ErrorResponse(403, 'api_disabled', message)

/** Error for an unexpected failure of varve; the log has its cause, which no client gets. */
export const unexpectedError = (): ErrorResponse => new ErrorResponse(500, 'internal_error', 'internal error')

/** Error for a temporary failure, such as no usable upstream; clients may retry after 1 s. */
export const unavailableError = (message: string): ErrorResponse =>
  new ErrorResponse(503, 'internal_error', message, ['retry-after', '1'])

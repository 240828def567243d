import { ErrorResponse, webFrameworkError, invalidInputError, unexpectedError } from '../api/error-response.js'
import { methodNotAllowedError } from '../api/pass-through-target.js'

/** Converts every error to the one error type, so that clients see only the node's shape. */
export function toErrorResponse (error: unknown): ErrorResponse {
  if (error instanceof ErrorResponse) return error
  switch (codeOf(error)) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return webFrameworkError(413, 'the request body is too large')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return webFrameworkError(415, 'the content type is not supported')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return webFrameworkError(400, 'the request body is not as long as its content length')
    // Fastify throws this for the method QUERY only, which no route has.
    case 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE':
      return methodNotAllowedError('GET, HEAD, POST')
    case 'FST_ERR_BAD_URL':
      return invalidInputError('the request target is not a valid path')
    // A client left within its body: never read, but counted as 400.
    case 'ECONNRESET':
      return webFrameworkError(400, 'the request body broke off')
    // Hides unexpected errors from clients; the log has them.
    default:
      return unexpectedError()
  }
}

function codeOf (error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}

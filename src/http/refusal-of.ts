import { invalidInput, Refusal, type RefusalStatus } from '../api/refusal.js'
import { methodNotAllowed } from '../api/unknown-route.js'

/** Every error becomes the one error type, so that clients only ever see the node's shape. */
export function refusalOf (error: unknown): Refusal {
  if (error instanceof Refusal) return error
  switch (codeOf(error)) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return framework(413, 'the request body is too large')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return framework(415, 'the content type is not supported')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return framework(400, 'the body is not as long as its content length')
    // Said of the method QUERY alone, which no route has.
    case 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE':
      return methodNotAllowed('GET, HEAD, POST')
    case 'FST_ERR_BAD_URL':
      return invalidInput('the request target is not a valid path')
    // The client left within its body; nobody reads this, but it is counted as the client's doing.
    case 'ECONNRESET':
      return framework(400, 'the request body broke off')
    // What nobody foresaw says nothing of itself to a client; the log has it.
    default:
      return new Refusal(500, 'internal_error', 'internal error')
  }
}

function framework (status: RefusalStatus, message: string): Refusal {
  return new Refusal(status, 'web_framework_error', message)
}

function codeOf (error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}

import t from 'tap'
import { toErrorResponse } from '../../src/http/to-error-response.js'

t.test('every error becomes an ErrorResponse with a fitting status', async t => {
  t.match(toErrorResponse({ code: 'FST_ERR_CTP_BODY_TOO_LARGE' }), { status: 413, code: 'web_framework_error' })
  t.match(toErrorResponse({ code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' }), { status: 415, code: 'web_framework_error' })
  t.match(toErrorResponse({ code: 'FST_ERR_CTP_INVALID_CONTENT_LENGTH' }), { status: 400, code: 'web_framework_error' })
  t.match(toErrorResponse({ code: 'ECONNRESET' }), { status: 400, code: 'web_framework_error' })
  t.match(toErrorResponse({ code: 'FST_ERR_BAD_URL' }), { status: 400, code: 'invalid_input' })
})

t.test('an unexpected error reveals nothing to the client', async t => {
  for (const error of [new Error('secret'), null, 'secret', { code: 'OTHER', message: 'secret' }]) {
    const errorResponse = toErrorResponse(error)
    t.match(errorResponse, { status: 500, code: 'internal_error' })
    t.notMatch(errorResponse.body, /secret/)
  }
})

import { gzipSync } from 'node:zlib'
import { type TrueResponse } from '../read-kinds.js'
import { type Lie, type ExpectedOutcome } from '../try-lies.js'
import { thenEnd, thenKeepAlive, responseBytes } from '../response-bytes.js'

const errorBody = '{"message":"evil","error_code":"internal_error","vm_error_code":null}'

const handed = (status: number) => ({ body }: TrueResponse): ExpectedOutcome => ({ status, body })

/** Malformed and hostile header fields. */
export const headerLies: readonly Lie[] = [
  {
    name: 'lines that stay with the node',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, {
        lines: [
          'set-cookie: evil=1',
          'set-cookie: evil=2',
          'keep-alive: timeout=5, evil',
          'proxy-authenticate: evil',
          'proxy-connection: evil',
          'upgrade: evil',
          'te: evil',
          'via: evil',
          'x-evil: 1',
          'content-location: /evil',
          'location: /evil',
          'alt-svc: evil',
          'refresh: 0; url=evil',
          'clear-site-data: "evil"',
          'strict-transport-security: evil',
          'access-control-allow-origin: evil',
          'content-security-policy: evil',
          'link: </evil>',
          'age: 7',
          'sourcemap: evil'
        ]
      })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a line that is listed as one of the connection',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: ['connection: keep-alive, content-type, x-evil, x-aptos-ledger-version', 'x-evil: evil']
        })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  ...['\r', '\0', '\x01', '\x7f', '\n x'].map((bad): Lie => (
    {
      name: `a value with ${JSON.stringify(bad)} in it`,
      respond: truth => thenEnd(responseBytes(truth, { lines: [`x-aptos-cursor: aa${bad}x-evil: 1`] })),
      cacheable: 'rejected',
      forwarded: 'rejected',
      status: 'invalid_response'
    }
  )),
  ...['x-aptos cursor: 1', ': 1', 'x-aptos-cursor', 'x-aptos-cursor : 1', 'x(y): 1', ' folded'].map((bad): Lie => (
    {
      name: `a line with "${bad}"`,
      respond: truth => thenEnd(responseBytes(truth, { lines: [bad] })),
      cacheable: 'rejected',
      forwarded: 'rejected',
      status: 'invalid_response'
    }
  )),
  {
    name: 'a cursor beyond ASCII',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['x-aptos-cursor: \xe2\x86\x92'] })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a media type beyond ASCII',
    respond: truth => thenKeepAlive(responseBytes(truth, { type: `${truth.type}; a=\xe2\x86\x92` })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  // Allows a missing position, because node info needs none.
  {
    name: 'two cursors',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['x-aptos-cursor: aa', 'x-aptos-cursor: bb'] })),
    cacheable: (_truth, { name }) => name === 'info' ? 'truth' : 'rejected',
    forwarded: 'truth'
  },
  {
    name: 'two of each line that a client trusts',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: [
            'etag: a',
            'etag: evil',
            'retry-after: 1',
            'retry-after: evil',
            'last-modified: a',
            'last-modified: evil',
            'content-disposition: inline',
            'content-disposition: evil',
            'traceparent: a',
            'traceparent: evil'
          ]
        })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'two hundred lines',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { lines: Array.from({ length: 200 }, (_, at) => `x-evil-${at}: 1`) })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'thousands of lines',
    respond: truth =>
      thenEnd(responseBytes(truth, { lines: Array.from({ length: 2000 }, (_, at) => `x-evil-${at}: 1`) })),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'invalid_response'
  },
  {
    name: 'a line of 1 MB',
    respond: truth => thenEnd(responseBytes(truth, { lines: [`x-evil: ${'x'.repeat(1_000_000)}`] })),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'invalid_response'
  },
  {
    name: 'lines by the names of all objects',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: ['__proto__: evil', 'constructor: evil', 'tostring: evil', 'hasownproperty: evil']
        })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a hundred early hints',
    respond: truth =>
      thenKeepAlive(
        `${
          'HTTP/1.1 103 Early Hints\r\nlink: </evil>\r\nset-cookie: evil=1\r\nx-aptos-ledger-version: 7\r\n\r\n'.repeat(
            100
          )
        }${responseBytes(truth)}`
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a hundred times 102',
    respond: truth => thenKeepAlive(`${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)}${responseBytes(truth)}`),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'an unexpected 100',
    respond: truth => thenKeepAlive(`${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)}${responseBytes(truth)}`),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  {
    name: 'another protocol',
    respond: truth =>
      thenEnd(
        responseBytes(truth, {
          first: 'HTTP/1.1 101 Switching Protocols',
          lines: ['upgrade: evil', 'connection: upgrade']
        })
      ),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  {
    name: 'a word on the way, and nothing after it',
    respond: () => thenEnd('HTTP/1.1 103 Early Hints\r\n\r\n'),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  ...[
    'HTTP/1.2 200 OK',
    'HTTP/1.1 000 OK',
    'HTTP/1.1 099 OK',
    'HTTP/1.1 1000 OK',
    'HTTP/1.1 20 OK',
    'HTTP/1.1 +20 OK',
    'HTTP/1.1  200 OK',
    'ICY 200 OK',
    'HTTP/1.1200 OK',
    '',
    'GET / HTTP/1.1'
  ].map((first): Lie => (
    {
      name: `the first line "${first}"`,
      respond: truth => thenEnd(responseBytes(truth, { first })),
      cacheable: 'rejected',
      forwarded: 'rejected'
    }
  ))
]

/** Statuses and errors that are no response to the request. */
export const statusLies: readonly Lie[] = [
  ...[204, 304].map((code): Lie => (
    {
      name: `${code} without a body`,
      respond: truth =>
        thenKeepAlive(
          responseBytes(truth, { first: `HTTP/1.1 ${code} Odd`, lines: ['location: /evil'], framing: [], body: '' })
        ),
      cacheable: 'rejected',
      forwarded: { status: code, body: '' },
      reason: 'status',
      status: String(code)
    }
  )),
  ...[204, 304].map((code): Lie => (
    {
      name: `${code} with a body`,
      respond: truth => thenKeepAlive(responseBytes(truth, { first: `HTTP/1.1 ${code} Odd` })),
      cacheable: 'rejected',
      forwarded: { status: code, body: '' }
    }
  )),
  ...[201, 202, 203, 205, 206, 207, 226, 299, 300, 301, 302, 303, 305, 307, 308].map((code): Lie => (
    {
      name: `${code}`,
      respond: truth =>
        thenKeepAlive(
          responseBytes(truth, {
            first: `HTTP/1.1 ${code} Odd`,
            lines: ['location: http://127.0.0.1:1/evil', 'content-range: bytes 0-1/2', 'set-cookie: evil=1']
          })
        ),
      cacheable: 'rejected',
      forwarded: handed(code),
      reason: 'status',
      status: String(code)
    }
  )),
  ...[
    400,
    401,
    402,
    403,
    404,
    405,
    407,
    408,
    409,
    410,
    411,
    412,
    413,
    414,
    416,
    417,
    421,
    426,
    431,
    451,
    500,
    501,
    502,
    503,
    504,
    505,
    507,
    511,
    599,
    600,
    999
  ].map((code): Lie => (
    {
      name: `${code}`,
      respond: truth =>
        thenKeepAlive(
          responseBytes(truth, {
            first: `HTTP/1.1 ${code} evil`,
            body: errorBody,
            lines: ['proxy-authenticate: evil', 'set-cookie: evil=1', 'location: /evil']
          })
        ),
      cacheable: { status: code, body: errorBody },
      forwarded: { status: code, body: errorBody },
      status: String(code)
    }
  ))
]

/** Media types and codings that were not requested. */
export const mediaTypeLies: readonly Lie[] = [
  ...[
    null,
    'text/html',
    'application/x-bcs; charset=utf-8x',
    'text/json',
    'application/jsonp',
    'json',
    'application/json, text/html',
    'application/octet-stream',
    ''
  ].map((type): Lie => (
    {
      name: `the media type ${type}`,
      respond: truth => thenKeepAlive(responseBytes(truth, { type })),
      cacheable: truth =>
        truth.type === 'application/x-bcs' && type?.startsWith('application/x-bcs') === true ? 'truth' : 'rejected',
      forwarded: handed(200),
      reason: 'wrong_type'
    }
  )),
  {
    name: 'JSON for BCS, and BCS for JSON',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, { type: truth.type === 'application/x-bcs' ? 'application/json' : 'application/x-bcs' })
      ),
    cacheable: 'rejected',
    forwarded: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'two media types',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['content-type: text/evil'] })),
    cacheable: 'rejected',
    forwarded: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'two media types, the first with a parameter',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { type: `${truth.type}; a=b`, lines: ['content-type: text/evil'] })),
    cacheable: 'rejected',
    forwarded: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'an odd charset',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { type: `${truth.type.split(';', 1).join('')};charset="utf-16"; q` })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  ...['gzip', 'br', 'deflate', 'GZIP', 'identity, gzip', 'zstd', 'x-other', 'identity, identity'].map((coding): Lie => (
    {
      name: `the coding ${coding}`,
      respond: truth =>
        thenKeepAlive(
          responseBytes(truth, {
            lines: [`content-encoding: ${coding}`],
            body: gzipSync(truth.body).toString('latin1')
          })
        ),
      cacheable: 'rejected',
      forwarded: { status: 200, body: undefined },
      reason: 'wrong_coding'
    }
  )),
  {
    name: 'the coding identity',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['content-encoding: identity'] })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'the coding of nothing',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['content-encoding:'] })),
    cacheable: 'truth',
    forwarded: 'truth'
  }
]

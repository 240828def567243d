import { gzipSync } from 'node:zlib'
import { type Truth } from '../kinds.js'
import { type Lie, type Seen } from '../trial.js'
import { ends, keeps, wire } from '../wire.js'

const errorBody = '{"message":"evil","error_code":"internal_error","vm_error_code":null}'

const handed = (status: number) => ({ body }: Truth): Seen => ({ status, body })

/** What a node may write into a head. */
export const lines: readonly Lie[] = [
  {
    name: 'lines that stay with the node',
    say: truth =>
      keeps(wire(truth, {
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
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a line that is listed as one of the connection',
    say: truth =>
      keeps(
        wire(truth, { lines: ['connection: keep-alive, content-type, x-evil, x-aptos-ledger-version', 'x-evil: evil'] })
      ),
    known: 'truth',
    passed: 'truth'
  },
  ...['\r', '\0', '\x01', '\x7f', '\n x'].map((bad): Lie => (
    {
      name: `a value with ${JSON.stringify(bad)} in it`,
      say: truth => ends(wire(truth, { lines: [`x-aptos-cursor: aa${bad}x-evil: 1`] })),
      known: 'refused',
      passed: 'refused',
      status: 'garbage'
    }
  )),
  ...['x-aptos cursor: 1', ': 1', 'x-aptos-cursor', 'x-aptos-cursor : 1', 'x(y): 1', ' folded'].map((bad): Lie => (
    {
      name: `a line that says "${bad}"`,
      say: truth => ends(wire(truth, { lines: [bad] })),
      known: 'refused',
      passed: 'refused',
      status: 'garbage'
    }
  )),
  {
    name: 'a cursor beyond ASCII',
    say: truth => keeps(wire(truth, { lines: ['x-aptos-cursor: \xe2\x86\x92'] })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a media type beyond ASCII',
    say: truth => keeps(wire(truth, { type: `${truth.type}; a=\xe2\x86\x92` })),
    known: 'truth',
    passed: 'truth'
  },
  // Node info need bear no position, so that it is taken as if it bore none.
  {
    name: 'two cursors',
    say: truth => keeps(wire(truth, { lines: ['x-aptos-cursor: aa', 'x-aptos-cursor: bb'] })),
    known: (_truth, { name }) => name === 'info' ? 'truth' : 'refused',
    passed: 'truth'
  },
  {
    name: 'two of each line that a client believes',
    say: truth =>
      keeps(
        wire(truth, {
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
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'two hundred lines',
    say: truth => keeps(wire(truth, { lines: Array.from({ length: 200 }, (_, at) => `x-evil-${at}: 1`) })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'thousands of lines',
    say: truth => ends(wire(truth, { lines: Array.from({ length: 2000 }, (_, at) => `x-evil-${at}: 1`) })),
    known: 'refused',
    passed: 'refused',
    status: 'garbage'
  },
  {
    name: 'a line of 1 MB',
    say: truth => ends(wire(truth, { lines: [`x-evil: ${'x'.repeat(1_000_000)}`] })),
    known: 'refused',
    passed: 'refused',
    status: 'garbage'
  },
  {
    name: 'lines by the names of all objects',
    say: truth =>
      keeps(wire(truth, { lines: ['__proto__: evil', 'constructor: evil', 'tostring: evil', 'hasownproperty: evil'] })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a hundred early hints',
    say: truth =>
      keeps(
        `${
          'HTTP/1.1 103 Early Hints\r\nlink: </evil>\r\nset-cookie: evil=1\r\nx-aptos-ledger-version: 7\r\n\r\n'.repeat(
            100
          )
        }${wire(truth)}`
      ),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a hundred times 102',
    say: truth => keeps(`${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)}${wire(truth)}`),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a 100 that nobody waited for',
    say: truth => keeps(`${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)}${wire(truth)}`),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
  },
  {
    name: 'another protocol',
    say: truth =>
      ends(wire(truth, { first: 'HTTP/1.1 101 Switching Protocols', lines: ['upgrade: evil', 'connection: upgrade'] })),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
  },
  {
    name: 'a word on the way, and nothing after it',
    say: () => ends('HTTP/1.1 103 Early Hints\r\n\r\n'),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
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
      say: truth => ends(wire(truth, { first })),
      known: 'refused',
      passed: 'refused'
    }
  ))
]

/** Statuses that are no answer to what was asked, and errors. */
export const statuses: readonly Lie[] = [
  ...[204, 304].map((code): Lie => (
    {
      name: `${code} without a body`,
      say: truth =>
        keeps(wire(truth, { first: `HTTP/1.1 ${code} Odd`, lines: ['location: /evil'], framing: [], body: '' })),
      known: 'refused',
      passed: { status: code, body: '' },
      reason: 'status',
      status: String(code)
    }
  )),
  ...[204, 304].map((code): Lie => (
    {
      name: `${code} with a body`,
      say: truth => keeps(wire(truth, { first: `HTTP/1.1 ${code} Odd` })),
      known: 'refused',
      passed: { status: code, body: '' }
    }
  )),
  ...[201, 202, 203, 205, 206, 207, 226, 299, 300, 301, 302, 303, 305, 307, 308].map((code): Lie => (
    {
      name: `${code}`,
      say: truth =>
        keeps(
          wire(truth, {
            first: `HTTP/1.1 ${code} Odd`,
            lines: ['location: http://127.0.0.1:1/evil', 'content-range: bytes 0-1/2', 'set-cookie: evil=1']
          })
        ),
      known: 'refused',
      passed: handed(code),
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
      say: truth =>
        keeps(
          wire(truth, {
            first: `HTTP/1.1 ${code} evil`,
            body: errorBody,
            lines: ['proxy-authenticate: evil', 'set-cookie: evil=1', 'location: /evil']
          })
        ),
      known: { status: code, body: errorBody },
      passed: { status: code, body: errorBody },
      status: String(code)
    }
  ))
]

/** Media types and codings that were not asked for. */
export const types: readonly Lie[] = [
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
      say: truth => keeps(wire(truth, { type })),
      known: truth =>
        truth.type === 'application/x-bcs' && type?.startsWith('application/x-bcs') === true ? 'truth' : 'refused',
      passed: handed(200),
      reason: 'wrong_type'
    }
  )),
  {
    name: 'JSON for BCS, and BCS for JSON',
    say: truth =>
      keeps(wire(truth, { type: truth.type === 'application/x-bcs' ? 'application/json' : 'application/x-bcs' })),
    known: 'refused',
    passed: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'two media types',
    say: truth => keeps(wire(truth, { lines: ['content-type: text/evil'] })),
    known: 'refused',
    passed: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'two media types, the first with a parameter',
    say: truth => keeps(wire(truth, { type: `${truth.type}; a=b`, lines: ['content-type: text/evil'] })),
    known: 'refused',
    passed: handed(200),
    reason: 'wrong_type'
  },
  {
    name: 'an odd charset',
    say: truth => keeps(wire(truth, { type: `${truth.type.split(';', 1).join('')};charset="utf-16"; q` })),
    known: 'truth',
    passed: 'truth'
  },
  ...['gzip', 'br', 'deflate', 'GZIP', 'identity, gzip', 'zstd', 'x-other', 'identity, identity'].map((coding): Lie => (
    {
      name: `the coding ${coding}`,
      say: truth =>
        keeps(wire(truth, { lines: [`content-encoding: ${coding}`], body: gzipSync(truth.body).toString('latin1') })),
      known: 'refused',
      passed: { status: 200, body: undefined },
      reason: 'wrong_coding'
    }
  )),
  {
    name: 'the coding identity',
    say: truth => keeps(wire(truth, { lines: ['content-encoding: identity'] })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'the coding of nothing',
    say: truth => keeps(wire(truth, { lines: ['content-encoding:'] })),
    known: 'truth',
    passed: 'truth'
  }
]

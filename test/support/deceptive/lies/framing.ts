import { type Lie } from '../try-lies.js'
import { encodeChunked, thenEnd, thenHang, thenKeepAlive, responseBytes } from '../response-bytes.js'

const te = ['transfer-encoding: chunked']
const whole = ({ body }: { body: string }): { status: number, body: string } => ({ status: 200, body })

/** False content lengths. */
export const lengthLies: readonly Lie[] = [
  {
    name: 'a length beyond the body, and the end',
    respond: truth => thenEnd(responseBytes(truth, { framing: ['content-length: 999'] })),
    cacheable: 'rejected',
    forwarded: 'broken',
    reason: 'incomplete',
    status: 'truncated'
  },
  {
    name: 'no length and the end, as HTTP/1.0 has it',
    respond: truth => thenEnd(responseBytes(truth, { first: 'HTTP/1.0 200 OK', framing: [] })),
    cacheable: 'rejected',
    forwarded: whole,
    reason: 'incomplete'
  },
  {
    name: 'no length and the end',
    respond: truth => thenEnd(responseBytes(truth, { framing: [] })),
    cacheable: 'rejected',
    forwarded: whole,
    reason: 'incomplete'
  },
  {
    name: 'two equal lengths',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          framing: [`content-length: ${truth.body.length}`, `content-length: ${truth.body.length}`]
        })
      ),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  {
    name: 'two lengths',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { framing: [`content-length: ${truth.body.length}`, 'content-length: 1'] })),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  ...['+5', '5, 5', '0x5', '-5', '5 5', '5;', '', '1e1', '٥', '99999999999999999999999'].map((length): Lie => (
    {
      name: `a length of "${length}"`,
      respond: truth => thenEnd(responseBytes(truth, { framing: [`content-length: ${length}`] })),
      cacheable: 'rejected',
      forwarded: 'rejected',
      status: /^\d/.test(length) && length !== '0x5' ? 'truncated' : 'invalid_response'
    }
  )),
  {
    name: 'a length with blanks around it',
    respond: truth => thenKeepAlive(responseBytes(truth, { framing: [`content-length: \t ${truth.body.length} \t`] })),
    cacheable: 'rejected',
    forwarded: 'rejected'
  },
  {
    name: 'a length with zeros before it',
    respond: truth => thenKeepAlive(responseBytes(truth, { framing: [`content-length: 000${truth.body.length}`] })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a length beyond 2^53',
    respond: truth => thenEnd(responseBytes(truth, { framing: ['content-length: 9007199254740993'] })),
    cacheable: 'broken',
    forwarded: 'broken'
  },
  {
    name: 'a length and chunks',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          framing: [`content-length: ${truth.body.length}`, ...te],
          body: encodeChunked(truth.body)
        })
      ),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'truncated'
  },
  {
    name: 'chunks and a length',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { framing: [...te, 'content-length: 3'], body: encodeChunked(truth.body) })),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'invalid_response'
  }
]

const size = (truth: { body: string }): string => truth.body.length.toString(16)

/** False chunks and transfer codings. */
export const chunkLies: readonly Lie[] = [
  {
    name: 'chunks without a last one, and the end',
    respond: truth => thenEnd(responseBytes(truth, { framing: te, body: `${size(truth)}\r\n${truth.body}\r\n` })),
    cacheable: 'rejected',
    forwarded: 'broken',
    reason: 'incomplete',
    status: 'truncated'
  },
  {
    name: 'a chunk cut short',
    respond: truth => thenEnd(responseBytes(truth, { framing: te, body: `fff\r\n${truth.body}` })),
    cacheable: 'rejected',
    forwarded: 'broken',
    reason: 'incomplete',
    status: 'truncated'
  },
  {
    name: 'the last chunk without its end',
    respond: truth => thenEnd(responseBytes(truth, { framing: te, body: `${size(truth)}\r\n${truth.body}\r\n0\r\n` })),
    cacheable: 'rejected',
    forwarded: 'broken',
    reason: 'incomplete',
    status: 'truncated'
  },
  ...['-5', '+5', ' 5', '5 ', '0x5', '5_', '', 'g', 'fffffffffffffffff', '10000000000000000', '5\t'].map((bad): Lie => (
    {
      name: `a chunk of size "${bad}"`,
      respond: truth => thenEnd(responseBytes(truth, { framing: te, body: `${bad}\r\n${truth.body}\r\n0\r\n\r\n` })),
      cacheable: 'rejected',
      forwarded: 'broken'
    }
  )),
  {
    name: 'a chunk that is longer than its size',
    respond: truth => thenKeepAlive(responseBytes(truth, { framing: te, body: `1\r\n${truth.body}\r\n0\r\n\r\n` })),
    cacheable: 'rejected',
    forwarded: 'broken'
  },
  {
    name: 'a chunk with an extension',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, { framing: te, body: `${size(truth)};evil=1\r\n${truth.body}\r\n0;evil\r\n\r\n` })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a chunk with an extension of 64 KB',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          framing: te,
          body: `${size(truth)};e=${'x'.repeat(65_536)}\r\n${truth.body}\r\n0\r\n\r\n`
        })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'lines that end in a bare line feed',
    respond: truth =>
      thenKeepAlive(responseBytes(truth, { framing: te, body: encodeChunked(truth.body) }).replaceAll('\r\n', '\n')),
    cacheable: 'rejected',
    forwarded: 'rejected'
  },
  {
    name: 'chunks that end in a bare line feed',
    respond: truth =>
      thenEnd(responseBytes(truth, { framing: te, body: encodeChunked(truth.body).replaceAll('\r\n', '\n') })),
    cacheable: 'rejected',
    forwarded: 'broken'
  },
  {
    name: 'trailers with a chain position',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: ['trailer: x-aptos-ledger-version'],
          framing: te,
          body: encodeChunked(truth.body, 'x-aptos-ledger-version: 7\r\nset-cookie: evil=1\r\nx-evil: 1\r\n')
        })
      ),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'a trailer that is announced behind a length',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: ['trailer: x-evil'] })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'trailers without end',
    respond: truth =>
      thenEnd(responseBytes(truth, { framing: te, body: encodeChunked(truth.body, `x: ${'y'.repeat(70_000)}\r\n`) })),
    cacheable: 'rejected',
    forwarded: 'broken',
    status: 'invalid_response'
  },
  ...[
    'gzip, chunked',
    'chunked, chunked',
    'gzip',
    'chunked, gzip',
    'identity',
    'identity, chunked',
    'xchunked',
    'chunked;q=1'
  ].map((coding): Lie => (
    {
      name: `the transfer coding "${coding}"`,
      respond: truth =>
        thenEnd(responseBytes(truth, { framing: [`transfer-encoding: ${coding}`], body: encodeChunked(truth.body) })),
      cacheable: 'rejected',
      forwarded: 'rejected',
      status: 'invalid_response'
    }
  )),
  {
    name: 'two transfer codings in two lines',
    respond: truth =>
      thenEnd(responseBytes(truth, { framing: ['transfer-encoding: gzip', ...te], body: encodeChunked(truth.body) })),
    cacheable: 'rejected',
    forwarded: 'rejected'
  },
  {
    name: 'a head that never ends',
    respond: truth => thenHang(responseBytes(truth).split('\r\n').slice(0, 5).join('\r\n')),
    cacheable: 'rejected',
    forwarded: 'rejected',
    status: 'timeout'
  }
]

import { type Lie } from '../trial.js'
import { chunked, ends, hangs, keeps, wire } from '../wire.js'

const te = ['transfer-encoding: chunked']
const whole = ({ body }: { body: string }): { status: number, body: string } => ({ status: 200, body })

/** What a node may say of the length of an answer. */
export const lengths: readonly Lie[] = [
  {
    name: 'a length beyond the body, and the end',
    say: truth => ends(wire(truth, { framing: ['content-length: 999'] })),
    known: 'refused',
    passed: 'broken',
    reason: 'incomplete',
    status: 'cut_short'
  },
  {
    name: 'no length and the end, as HTTP/1.0 has it',
    say: truth => ends(wire(truth, { first: 'HTTP/1.0 200 OK', framing: [] })),
    known: 'refused',
    passed: whole,
    reason: 'incomplete'
  },
  {
    name: 'no length and the end',
    say: truth => ends(wire(truth, { framing: [] })),
    known: 'refused',
    passed: whole,
    reason: 'incomplete'
  },
  {
    name: 'two equal lengths',
    say: truth =>
      keeps(wire(truth, { framing: [`content-length: ${truth.body.length}`, `content-length: ${truth.body.length}`] })),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
  },
  {
    name: 'two lengths',
    say: truth => keeps(wire(truth, { framing: [`content-length: ${truth.body.length}`, 'content-length: 1'] })),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
  },
  ...['+5', '5, 5', '0x5', '-5', '5 5', '5;', '', '1e1', '٥', '99999999999999999999999'].map((length): Lie => (
    {
      name: `a length of "${length}"`,
      say: truth => ends(wire(truth, { framing: [`content-length: ${length}`] })),
      known: 'refused',
      passed: 'refused',
      status: /^\d/.test(length) && length !== '0x5' ? 'cut_short' : 'garbage'
    }
  )),
  {
    name: 'a length with blanks around it',
    say: truth => keeps(wire(truth, { framing: [`content-length: \t ${truth.body.length} \t`] })),
    known: 'refused',
    passed: 'refused'
  },
  {
    name: 'a length with zeros before it',
    say: truth => keeps(wire(truth, { framing: [`content-length: 000${truth.body.length}`] })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a length beyond 2^53',
    say: truth => ends(wire(truth, { framing: ['content-length: 9007199254740993'] })),
    known: 'broken',
    passed: 'broken'
  },
  {
    name: 'a length and chunks',
    say: truth =>
      keeps(wire(truth, { framing: [`content-length: ${truth.body.length}`, ...te], body: chunked(truth.body) })),
    known: 'refused',
    passed: 'refused',
    status: 'cut_short'
  },
  {
    name: 'chunks and a length',
    say: truth => keeps(wire(truth, { framing: [...te, 'content-length: 3'], body: chunked(truth.body) })),
    known: 'refused',
    passed: 'refused',
    status: 'garbage'
  }
]

const size = (truth: { body: string }): string => truth.body.length.toString(16)

/** What a node may do with chunks and transfer codings. */
export const chunks: readonly Lie[] = [
  {
    name: 'chunks without a last one, and the end',
    say: truth => ends(wire(truth, { framing: te, body: `${size(truth)}\r\n${truth.body}\r\n` })),
    known: 'refused',
    passed: 'broken',
    reason: 'incomplete',
    status: 'cut_short'
  },
  {
    name: 'a chunk cut short',
    say: truth => ends(wire(truth, { framing: te, body: `fff\r\n${truth.body}` })),
    known: 'refused',
    passed: 'broken',
    reason: 'incomplete',
    status: 'cut_short'
  },
  {
    name: 'the last chunk without its end',
    say: truth => ends(wire(truth, { framing: te, body: `${size(truth)}\r\n${truth.body}\r\n0\r\n` })),
    known: 'refused',
    passed: 'broken',
    reason: 'incomplete',
    status: 'cut_short'
  },
  ...['-5', '+5', ' 5', '5 ', '0x5', '5_', '', 'g', 'fffffffffffffffff', '10000000000000000', '5\t'].map((bad): Lie => (
    {
      name: `a chunk of size "${bad}"`,
      say: truth => ends(wire(truth, { framing: te, body: `${bad}\r\n${truth.body}\r\n0\r\n\r\n` })),
      known: 'refused',
      passed: 'broken'
    }
  )),
  {
    name: 'a chunk that is longer than its size',
    say: truth => keeps(wire(truth, { framing: te, body: `1\r\n${truth.body}\r\n0\r\n\r\n` })),
    known: 'refused',
    passed: 'broken'
  },
  {
    name: 'a chunk with an extension',
    say: truth => keeps(wire(truth, { framing: te, body: `${size(truth)};evil=1\r\n${truth.body}\r\n0;evil\r\n\r\n` })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a chunk with an extension of 64 KB',
    say: truth =>
      keeps(wire(truth, { framing: te, body: `${size(truth)};e=${'x'.repeat(65_536)}\r\n${truth.body}\r\n0\r\n\r\n` })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'lines that end in a bare line feed',
    say: truth => keeps(wire(truth, { framing: te, body: chunked(truth.body) }).replaceAll('\r\n', '\n')),
    known: 'refused',
    passed: 'refused'
  },
  {
    name: 'chunks that end in a bare line feed',
    say: truth => ends(wire(truth, { framing: te, body: chunked(truth.body).replaceAll('\r\n', '\n') })),
    known: 'refused',
    passed: 'broken'
  },
  {
    name: 'trailers that say where the chain stands',
    say: truth =>
      keeps(
        wire(truth, {
          lines: ['trailer: x-aptos-ledger-version'],
          framing: te,
          body: chunked(truth.body, 'x-aptos-ledger-version: 7\r\nset-cookie: evil=1\r\nx-evil: 1\r\n')
        })
      ),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'a trailer that is announced behind a length',
    say: truth => keeps(wire(truth, { lines: ['trailer: x-evil'] })),
    known: 'truth',
    passed: 'truth'
  },
  {
    name: 'trailers without end',
    say: truth => ends(wire(truth, { framing: te, body: chunked(truth.body, `x: ${'y'.repeat(70_000)}\r\n`) })),
    known: 'refused',
    passed: 'broken',
    status: 'garbage'
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
      say: truth => ends(wire(truth, { framing: [`transfer-encoding: ${coding}`], body: chunked(truth.body) })),
      known: 'refused',
      passed: 'refused',
      status: 'garbage'
    }
  )),
  {
    name: 'two transfer codings in two lines',
    say: truth => ends(wire(truth, { framing: ['transfer-encoding: gzip', ...te], body: chunked(truth.body) })),
    known: 'refused',
    passed: 'refused'
  },
  {
    name: 'a head that never ends',
    say: truth => hangs(wire(truth).split('\r\n').slice(0, 5).join('\r\n')),
    known: 'refused',
    passed: 'refused',
    status: 'timeout'
  }
]

import { type Socket } from 'node:net'

/** A kind of slow client: its first bytes, and its action every half second. */
export interface SlowBehaviour {
  readonly name: string
  /** True if it sends in time and reads its response slowly or not at all. */
  readonly isSlowReader?: boolean
  begin(socket: Socket): void
  continue(socket: Socket): void
}

const nothing = (): void => {}
const small = '/v1/accounts/0x1/modules?ledger_version=15000&limit=1'
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
const post = (framing: string): string =>
  `POST /v1/tables/0x1/item HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`
const much = 20_000

/** Returns every slow behaviour; `large` is a target larger than kernel buffers for a client that does not read. */
export function slowBehaviours (large: string): SlowBehaviour[] {
  const muchText = 'y'.repeat(much)
  // Skips a write while the kernel does not accept more, so that nothing is buffered.
  const push = (socket: Socket, text: string): void => {
    if (socket.writableLength < much) socket.write(text)
  }
  const sends = (name: string, first: string, more: string): SlowBehaviour => ({
    name,
    begin: socket => {
      socket.resume().write(first)
    },
    continue: socket => {
      push(socket, more)
    }
  })
  const reads = (name: string, first: string, bytes: number): SlowBehaviour => ({
    name,
    isSlowReader: true,
    begin: socket => {
      socket.pause().write(first)
    },
    continue: socket => {
      if (bytes > 0) socket.read(bytes)
    }
  })
  return [
    {
      name: 'sends nothing',
      begin: socket => {
        socket.resume()
      },
      continue: nothing
    },
    sends('a head by bytes', 'GET /v1/info HTTP/1.1\r\nHost: x\r\nX: ', 'x'),
    sends('a second head by bytes', `${get(small)}GET /`, 'x'),
    sends('a body by bytes', `${post('Content-Length: 1000')}{`, 'x'),
    sends(
      'a body that no reader awaits by bytes',
      `GET ${small} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n`,
      'x'
    ),
    sends('a body that is rejected for its length', post('Content-Length: 1000000000'), muchText),
    sends(
      'chunks that are rejected for their length',
      post('Transfer-Encoding: chunked'),
      `${much.toString(16)}\r\n${muchText}\r\n`
    ),
    sends(
      'a head that is rejected for its length',
      `GET /v1/info HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(20_000)}`,
      muchText
    ),
    reads('reads nothing', get(large).repeat(4), 0),
    reads('reads a byte at a time', get(large).repeat(4), 1),
    reads('sends ahead and reads nothing', get(large).repeat(200), 0)
  ]
}

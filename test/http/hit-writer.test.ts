import { once } from 'node:events'
import { type AddressInfo, connect, createServer, Socket } from 'node:net'
import t from 'tap'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'
import { HitWriter } from '../../src/http/hit-writer.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'

const body = Buffer.from('[42]')
const response = { status: 200, rawHeaders: [], headerText: 'etag: "a"\r\n', body }

t.test('every response has its own length and the Date of its second, whatever was written before', async t => {
  let now = new Date('2026-11-25T10:00:00.100Z')
  const inFlight = new InFlightBytes(1e9, () => 0)
  const clients = new ConnectionLimiter({ connections: 10, inFlight }, { cut: () => {}, onFull: () => {} })
  const writer = new HitWriter(clients, () => now)
  const large = Buffer.alloc(5e6, 'x')
  const server = createServer(socket => {
    writer.write(socket, 'GET', response, [], 'req-1')
    now = new Date('2026-11-25T10:00:00.900Z')
    writer.write(socket, 'GET', response, ['x-own', '1'], 'req-1')
    now = new Date('2026-11-25T10:00:01.000Z')
    writer.write(socket, 'HEAD', response, [], 'req-1')
    writer.write(socket, 'GET', { ...response, status: 304, body: undefined }, [], 'req-1')
    // Follows bytes that the kernel has not taken.
    socket.write(large)
    writer.write(socket, 'GET', response, [], 'req-1')
    const other = new Socket().on('error', () => {})
    writer.write(other, 'GET', { ...response, body: Buffer.from('[43]') }, [], 'req-1')
    socket.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
  })
  let text = ''
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  await once(socket, 'close')
  const expected = (status: string, lines: string, second: string, sent: string): string =>
    `HTTP/1.1 ${status}\r\netag: "a"\r\nx-request-id: req-1\r\n${lines}Date: Wed, 25 Nov 2026 10:00:0${second} GMT\r\nConnection: keep-alive\r\nKeep-Alive: timeout=72\r\n\r\n${sent}`
  const length = (bytes: number): string => `content-length: ${bytes}\r\n`
  t.equal(
    text,
    [
      expected('200 OK', length(4), '0', '[42]'),
      expected('200 OK', `${length(4)}x-own: 1\r\n`, '0', '[42]'),
      expected('200 OK', length(4), '1', ''),
      expected('304 Not Modified', '', '1', ''),
      large.toString(),
      expected('200 OK', length(4), '1', '[42]')
    ].join('')
  )
  t.equal(inFlight.bytes, 0)
})

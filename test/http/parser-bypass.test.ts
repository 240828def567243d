import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import {
  type BypassedConnection,
  bypassedConnectionOf,
  idleChunkEvent,
  installParserBypass
} from '../../src/http/parser-bypass.js'
import { listening } from '../support/stub-upstream.js'

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

t.test('unsent bytes may outlast the keep-alive timeout, which then closes the connection', async t => {
  const server = createServer({ keepAliveTimeout: 300 }, (request, response) => {
    bypassedConnectionOf(request.socket)?.began(request)
    response.end('parsed')
  })
  installParserBypass(server, () => t.fail('this Node.js offers idle chunks'))
  server.on(idleChunkEvent, (connection: BypassedConnection) => {
    connection.isTaken = true
    connection.socket.write(Buffer.alloc(20e6))
  })
  const socket = connect(Number(new URL(await listening(t, server)).port), '127.0.0.1')
  socket.write(get)
  await once(socket, 'data')
  socket.pause().write(get)
  await new Promise(resolve => setTimeout(resolve, 900))
  let bytes = 0
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  }).resume()
  await once(socket, 'close')
  t.equal(bytes, 20e6)
})

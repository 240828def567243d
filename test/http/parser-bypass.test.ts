import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import {
  type BypassedConnection,
  bypassedConnectionOf,
  idleChunkEvent,
  installParserBypass
} from '../../src/http/parser-bypass.js'
import { until } from '../support/until.js'
import { listening } from '../support/stub-upstream.js'

interface Bypassed {
  readonly server: Server
  readonly socket: Socket
  readonly parsed: string[]
  readonly offered: string[]
  unsupported: number
  /** Number of bytes that the server has read. */
  bytesRead(): number
}

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`

/** Starts a server that takes requests for /known from the parser, and connects to it. */
async function start (t: Test, prepare: (server: Server) => void = () => {}): Promise<Bypassed> {
  const parsed: string[] = []
  const offered: string[] = []
  const server = createServer({ keepAliveTimeout: 300 }, (request, response) => {
    bypassedConnectionOf(request.socket)?.began(request)
    parsed.push(request.url ?? '')
    request.resume().on('end', () => {
      response.end('parsed')
    })
  })
  prepare(server)
  let accepted: Socket | undefined
  server.once('connection', socket => {
    accepted = socket
  })
  const bypassed = { server, parsed, offered, unsupported: 0, bytesRead: () => accepted?.bytesRead ?? 0 }
  installParserBypass(server, () => {
    bypassed.unsupported++
  })
  server.on(idleChunkEvent, (connection: BypassedConnection, chunk: Buffer) => {
    const text = chunk.toString()
    offered.push(text)
    connection.isTaken = text.startsWith('GET /known')
    if (text.startsWith('GET /known-large')) connection.socket.write(Buffer.alloc(20e6))
    else if (connection.isTaken) connection.socket.write('taken')
  })
  const { port } = new URL(await listening(t, server))
  const socket = connect(Number(port), '127.0.0.1').setNoDelay()
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return Object.assign(bypassed, { socket })
}

async function answersTo (socket: Socket, requests: string): Promise<string> {
  socket.write(requests)
  const [chunk] = await once(socket, 'data') as [Buffer]
  return chunk.toString().replace(/^HTTP[^]*\r\n\r\n/, '')
}

t.test('an idle connection offers its chunks, except the first', async t => {
  const { socket, parsed, offered } = await start(t)
  t.match(await answersTo(socket, get('/known')), /parsed/)
  t.equal(await answersTo(socket, get('/known')), 'taken')
  t.match(await answersTo(socket, get('/other')), /parsed/)
  t.equal(await answersTo(socket, get('/known')), 'taken')
  t.same(parsed, ['/known', '/other'])
  t.same(offered, ['/known', '/other', '/known'].map(get))
})

t.test('bytes that continue a request are never offered, whatever they look like', async t => {
  const known = get('/known')
  const cases: Array<[first: string, rest: string, parsed: string[]]> = [
    [`POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: ${known.length}\r\n\r\n`, '', ['/a']],
    [
      `POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${known.length.toString(16)}\r\n`,
      '\r\n0\r\n\r\n',
      ['/b']
    ],
    [`${get('/c')}GET /d HTTP/1.1\r\nX-Next: `, '', ['/c', '/d']],
    ['GET /e HTTP/1.1\r\nX-Next: ', '', ['/e']],
    [`${get('/f')}\r\n`, '', ['/f', '/known']],
    ['\r\n', '', ['/known']]
  ]
  for (const [first, rest, expected] of cases) {
    const { socket, parsed, offered, bytesRead } = await start(t)
    await answersTo(socket, get('/before'))
    let sent = bytesRead()
    for (const piece of [first, known, rest]) {
      socket.write(piece)
      sent += piece.length
      // Waits, since more bytes could join the piece.
      await until(() => bytesRead() === sent, 'a piece arrives')
    }
    await until(() => parsed.length === expected.length + 1, `${first} is parsed`)
    t.same(parsed.slice(1), expected)
    t.same(offered.filter(text => text === known), [], first)
  }
})

t.test('unsent bytes may outlast the keep-alive timeout, which then closes the connection', async t => {
  const { socket } = await start(t)
  await answersTo(socket, get('/known'))
  socket.pause().write(get('/known-large'))
  await new Promise(resolve => {
    setTimeout(resolve, 900)
  })
  let bytes = 0
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  }).resume()
  await once(socket, 'close')
  t.equal(bytes, 20e6)
})

t.test('a Node.js release without the listener is reported once, and everything is parsed', async t => {
  const bypassed = await start(t, server => {
    server.on('connection', socket => socket.on('data', () => {}))
  })
  const { socket, offered } = bypassed
  for (let times = 0; times < 3; times++) t.match(await answersTo(socket, get('/known')), /parsed/)
  const second = connect(Number(socket.remotePort), '127.0.0.1')
  t.match(await answersTo(second, get('/known')), /parsed/)
  second.destroy()
  t.same(offered, [])
  t.equal(bypassed.unsupported, 1)
})

import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse
} from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type Test } from 'tap'

/** The seven position headers of a stub, of which any may be changed. */
export function stamps (change: Record<string, string> = {}): Record<string, string> {
  return {
    'x-aptos-chain-id': '4',
    'x-aptos-ledger-version': '1000',
    'x-aptos-ledger-oldest-version': '10',
    'x-aptos-ledger-timestampusec': '1000000',
    'x-aptos-epoch': '2',
    'x-aptos-block-height': '100',
    'x-aptos-oldest-block-height': '1',
    ...change
  }
}

/** A scripted node: what it answers is the test's, and it counts what it is asked. */
export interface StubNode {
  readonly url: string
  /** The targets asked for, the index apart. */
  readonly asked: string[]
  /** The raw header lines of each. */
  readonly headers: string[][]
}

// What varve asks for itself, two seconds after its start, to know the chain by.
function isVarvesOwn ({ url }: IncomingMessage): boolean {
  return url?.startsWith('/v1/blocks/by_height/') === true
}

/**
 * Starts a scripted node over HTTP; it answers the index by itself, and has no blocks by height to know the chain by.
 */
export async function stubNode (
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
  index: RequestListener = answerIndex
): Promise<StubNode> {
  const asked: string[] = []
  const headers: string[][] = []
  const server = createHttpServer((request, response) => {
    if (request.url === '/v1') return index(request, response)
    if (isVarvesOwn(request)) return response.writeHead(404).end()
    asked.push(`${request.method} ${request.url}`)
    headers.push(request.rawHeaders)
    answer(request, response, asked.length)
  })
  return { url: await listening(t, server), asked, headers }
}

/** A node whose word on everything is another each time, so that what was kept is told from what is new. */
export async function countingNode (t: Test): Promise<StubNode & { reads: () => number }> {
  const node = await stubNode(t, (request, response, nth) => {
    request.resume()
    ok(response, `[${nth}]`)
  })
  return { ...node, reads: () => node.asked.length }
}

/** Starts a scripted node whose answers are raw bytes, one a connection. */
export async function rawNode (
  t: Test,
  answer: (socket: Socket, nth: number) => void
): Promise<{ url: string, connections: () => number }> {
  let connections = 0
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      answer(socket, ++connections)
    })
  })
  return { url: await listening(t, server), connections: () => connections }
}

/** Listens with what is made of each connection in the test's hand; gives the address of a node. */
export async function listenRaw (t: Test, onConnection: (socket: Socket) => void): Promise<string> {
  return await listening(t, createServer(onConnection))
}

/** The head of an answer with all position headers. */
export function answerIndex (_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{"git_hash":"aaaa"}')
}

/** Answers 200 with a body and all position headers. */
export function ok (response: ServerResponse, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', ...stamps(), ...headers }).end(body)
}

async function listening (t: Test, server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', socket => sockets.add(socket.on('close', () => sockets.delete(socket))))
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => {
      server.close(resolve)
    })
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

import { EventEmitter, on } from 'node:events'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse
} from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type Test } from 'tap'
import { Deferred } from '../../src/workers/deferred.js'

/** Returns the seven position headers of a stub, with changes. */
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

/** Returns the position headers of a head; a stub's default head is 1000. */
export function headAt (version: number): Record<string, string> {
  return {
    'x-aptos-ledger-version': String(version),
    'x-aptos-ledger-timestampusec': String(version * 1000),
    'x-aptos-block-height': String(Math.floor(version / 10))
  }
}

/** A scripted upstream that counts requests. */
export interface StubUpstream {
  readonly url: string
  /** Requested targets, without the index. */
  readonly requests: string[]
  /** Raw header fields of each. */
  readonly rawHeaders: string[][]
}

// True for varve's own read of an anchor, two seconds after its start.
function isAnchorRead ({ url }: IncomingMessage): boolean {
  return url?.startsWith('/v1/blocks/by_height/') === true
}

/** Starts a scripted upstream over HTTP; it serves the index itself and has no blocks by height as anchors. */
export async function startStubUpstream (
  t: Test,
  respond: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
  index: RequestListener = respondToIndex
): Promise<StubUpstream> {
  const requests: string[] = []
  const rawHeaders: string[][] = []
  const server = createHttpServer((request, response) => {
    if (request.url === '/v1') return index(request, response)
    if (isAnchorRead(request)) return response.writeHead(404).end()
    requests.push(`${request.method} ${request.url}`)
    rawHeaders.push(request.rawHeaders)
    respond(request, response, requests.length)
  })
  return { url: await listening(t, server), requests, rawHeaders }
}

/** Starts an upstream that responds with an empty list once it has read the request. */
export async function startEmptyUpstream (t: Test): Promise<StubUpstream> {
  return await startStubUpstream(t, respondEmpty)
}

/** An upstream whose responses a test completes, in the order of their requests. */
export interface HeldUpstream extends StubUpstream {
  readonly next: () => Promise<ServerResponse>
}

/** Starts an upstream whose responses a test completes; `begin` sends what comes before. */
export async function startHeldUpstream (
  t: Test,
  begin: (response: ServerResponse) => void = () => {}
): Promise<HeldUpstream> {
  const arrivals = new EventEmitter()
  const responses = on(arrivals, 'response')
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume()
    begin(response)
    arrivals.emit('response', response)
  })
  return { ...stub, next: async () => (await responses.next()).value[0] as ServerResponse }
}

/** Starts an upstream that holds the responses of some targets until the test releases them. */
export async function startGatedUpstream (t: Test, held = /./): Promise<StubUpstream & { release: () => void }> {
  const released = new Deferred<void>()
  const stub = await startStubUpstream(t, (request, response) => {
    if (!held.test(request.url ?? '')) return respondEmpty(request, response)
    released.promise.then(() => {
      respondEmpty(request, response)
    }, () => {})
  })
  return {
    ...stub,
    release: () => {
      released.resolve()
    }
  }
}

/** Starts an upstream that never repeats a response, so that hits differ from fetches. */
export async function startCountingUpstream (t: Test): Promise<StubUpstream & { reads: () => number }> {
  const upstream = await startStubUpstream(t, (request, response, nth) => {
    request.resume()
    respondOk(response, `[${nth}]`)
  })
  return { ...upstream, reads: () => upstream.requests.length }
}

/** State of an upstream; a test may change it at any time. */
export interface UpstreamState {
  release: string
  /** Changes of the position headers. */
  stamps: Record<string, string>
  respond: (response: ServerResponse, nth: number) => void
}

/** Starts an upstream that the test changes; each response to a read is another one, unless the test says so. */
export async function startChangingUpstream (
  t: Test,
  change: Partial<UpstreamState> = {}
): Promise<StubUpstream & { state: UpstreamState }> {
  const state: UpstreamState = {
    release: 'aaaa',
    stamps: {},
    respond: (response, nth) => {
      respondOk(response, `[${nth}]`, state.stamps)
    },
    ...change
  }
  const stub = await startStubUpstream(t, (request, response, nth) => {
    request.resume()
    state.respond(response, nth)
  }, (_request, response) => {
    respondOk(response, JSON.stringify({ git_hash: state.release }), state.stamps)
  })
  return { ...stub, state }
}

/** Starts a scripted upstream with raw bytes as responses, one per connection. */
export async function startRawUpstream (
  t: Test,
  respond: (socket: Socket, nth: number) => void
): Promise<{ url: string, connections: () => number }> {
  let connections = 0
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      respond(socket, ++connections)
    })
  })
  return { url: await listening(t, server), connections: () => connections }
}

/** Listens with a handler for each connection; returns an upstream address. */
export async function listenRaw (t: Test, onConnection: (socket: Socket) => void): Promise<string> {
  return await listening(t, createServer(onConnection))
}

/** Sends the index with all position headers. */
export function respondToIndex (_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{"git_hash":"aaaa"}')
}

/** Sends a 200 with a body and all position headers. */
export function respondOk (response: ServerResponse, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', ...stamps(), ...headers }).end(body)
}

function respondEmpty (request: IncomingMessage, response: ServerResponse): void {
  request.resume().once('end', () => {
    respondOk(response, '[]')
  })
}

/** Listens on a free port until the test ends, then closes every connection; returns the address. */
export async function listening (t: Test, server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', socket => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
  })
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

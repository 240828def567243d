import { EventEmitter, on } from 'node:events'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse
} from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type Test } from 'tap'
import { Deferred } from '../../src/peers/deferred.js'

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

const proofTarget = /^\/v1\/(?:blocks\/by_height|transactions\/by_version)\/(\d+)$/
const digitsOfHash = 64

/** Returns the body of varve's own reads of what proves a chain: blocks by height, and the root of a version. */
export function proofFor (target: string | undefined): string | undefined {
  const [, number] = proofTarget.exec(target ?? '') ?? []
  if (number === undefined) return undefined
  const hash = `0x${number.padStart(digitsOfHash, '0')}`
  return JSON.stringify({
    block_height: number,
    block_hash: hash,
    last_version: '1',
    version: number,
    accumulator_root_hash: hash
  })
}

/** Starts a scripted upstream over HTTP; it serves the index itself, and what proves its chain. */
export async function startStubUpstream (
  t: Test,
  respond: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
  index: RequestListener = respondToIndex
): Promise<StubUpstream> {
  const requests: string[] = []
  const rawHeaders: string[][] = []
  const server = createHttpServer((request, response) => {
    if (request.url === '/v1') return index(request, response)
    const proof = proofFor(request.url)
    if (proof !== undefined) return respondOk(response, proof)
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
  respond: (socket: Socket) => void
): Promise<{ url: string, reads: () => number }> {
  let reads = 0
  const server = createServer(socket => {
    socket.on('error', () => {}).once('data', chunk => {
      // A poll of varve is no read.
      if (!String(chunk).startsWith('GET /v1 ')) reads++
      respond(socket)
    })
  })
  return { url: await listening(t, server), reads: () => reads }
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

/** State of a scripted upstream with event streams; a test may change it at any time. */
export interface EventUpstreamState {
  /** Creation number of the handle's stream; undefined while the handle does not exist. */
  creation: number | undefined
  /** Number of events of each stream. */
  count: number
  /** Maximum number of events in a page. */
  max: number
  release: string
  oldest: number
  head: number
  /** Form in which the account is written. */
  account: string
  /** Promise that delays responses. */
  blockedUntil: Promise<void> | undefined
  /** Returns the version of an event by its number. */
  versionOf: (sequence: number) => number
}

/**
 * An upstream with streams of one account: by handle, which may be destroyed and created again, and by creation number.
 */
export interface EventUpstream extends StubUpstream {
  readonly state: EventUpstreamState
  /** Returns the page that the upstream would respond with. */
  page(start: number, limit: number, creation?: number): string
}

/** Paths of its streams. */
export const handlePath = '/v1/accounts/0x1/events/0x1::a::Holder/events'
export const streamPath = (creation: number): string => `/v1/accounts/0x1/events/${creation}`

/** Starts the upstream. */
export async function startEventUpstream (t: Test, change: Partial<EventUpstreamState> = {}): Promise<EventUpstream> {
  const state: EventUpstreamState = {
    creation: 7,
    count: 500,
    max: 100,
    release: 'aaaa',
    oldest: 0,
    head: 1_000_000,
    account: '0x1',
    blockedUntil: undefined,
    versionOf: sequence => 1000 + sequence * 2,
    ...change
  }
  const stampsNow = (): Record<string, string> =>
    stamps({ 'x-aptos-ledger-version': String(state.head), 'x-aptos-ledger-oldest-version': String(state.oldest) })
  const event = (sequence: number, creation: number): string =>
    `{"version":"${
      state.versionOf(sequence)
    }","guid":{"creation_number":"${creation}","account_address":"${state.account}"},` +
    `"sequence_number":"${sequence}","type":"0x1::a::Event","data":{"text":"],[ \\"${sequence}\\" é","by":"${state.release}","of":${
      '9'.repeat(sequence % 40 + 1)
    }}}`
  const page = (start: number, limit: number, creation = state.creation ?? 0): string => {
    const count = Math.max(0, Math.min(limit, state.max, state.count - start))
    return `[${Array.from({ length: count }, (_, at) => event(start + at, creation)).join()}]`
  }
  const error = (code: string, text: string): string =>
    JSON.stringify({ message: text, error_code: code, vm_error_code: null })
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://node')
    const segments = pathname.split('/')
    const creation = segments.length === 6 ? Number(segments[5]) : state.creation
    const send = (status: number, body: string): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...stampsNow() }).end(body)
    }
    if (!pathname.includes('/events/')) return respondOk(response, '[]', stampsNow())
    if (creation === undefined) return send(404, error('resource_not_found', 'Resource not found'))
    const [limit, start] = [Number(searchParams.get('limit') ?? 25), searchParams.get('start')]
    if (limit === 0) return send(400, error('invalid_input', 'Given limit value (0) must not be zero'))
    const from = start === null ? Math.max(0, state.count - limit) : Number(start)
    if (from < state.count && state.versionOf(from) < state.oldest) return send(410, error('version_pruned', 'pruned'))
    respondOk(response, page(from, limit, creation), stampsNow())
  }
  const upstream = await startStubUpstream(t, (request, response) => {
    if (state.blockedUntil === undefined) respond(request, response)
    else {
      state.blockedUntil.then(() => {
        respond(request, response)
      }, () => {})
    }
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stampsNow() }).end(
      `{"git_hash":"${state.release}"}`
    )
  })
  return { ...upstream, state, page }
}

import { type IncomingMessage, type Server } from 'node:http'
import { Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import { findPendingResponse } from './http-exchange.js'

/** Event of a server: an idle connection received a chunk, which its listener may take from the parser. */
export const idleChunkEvent = 'varve:idleChunk'

type DataListener = (chunk: Buffer) => void

const connections = new WeakMap<Socket, BypassedConnection>()

/** Returns the connection of a socket whose chunks can bypass the parser. */
export function bypassedConnectionOf (socket: Socket): BypassedConnection | undefined {
  return connections.get(socket)
}

/**
 * Offers each chunk of an idle connection to `idleChunkEvent` before Node's parser. Replaces the one listener that Node
 * gives its parser; calls `onUnsupported` once if a Node.js release has none.
 */
export function installParserBypass (server: Server, onUnsupported: () => void): void {
  let isUnsupported = false
  server.on(server instanceof SecureServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (isUnsupported || socket.destroyed || server.listenerCount(idleChunkEvent) === 0) return
    const [parse, ...others] = socket.listeners('data') as DataListener[]
    if (parse === undefined || others.length > 0) {
      isUnsupported = true
      onUnsupported()
      return
    }
    const connection = new BypassedConnection(server, socket, parse)
    connections.set(socket, connection)
    const receive: DataListener & { listener?: DataListener } = chunk => connection.receive(chunk)
    // Lets Node remove this listener as its own when it gives the socket away.
    receive.listener = parse
    const listenersOf = (event: string): Array<() => void> => socket.listeners(event) as Array<() => void>
    const flowControl = (['pause', 'resume'] as const).map(event => [event, listenersOf(event)] as const)
    socket.off('data', parse).on('data', receive)
    // Lets only these events start and stop reading, as without the bypass, so that a pipelining client can be paused.
    socket._read = () => {}
    for (const [event, listeners] of flowControl) {
      for (const listener of listeners) if (!socket.listeners(event).includes(listener)) socket.on(event, listener)
    }
  })
  // Leaves slow readers of bypassed responses to the connection limiter, as Node does while a response is pending.
  server.on('timeout', (socket: Socket) => {
    if (socket.writableLength === 0) socket.destroy()
  })
}

/** Bytes that began between two requests, with the requests that began in them. */
interface Span {
  readonly bytes: Buffer
  readonly requests: IncomingMessage[]
  onWhole?: DataListener
}

// Bounds the bytes that are copied of requests in pieces (law 10: nothing grows without bound).
const maxOpenBytes = 4096

/** Connection whose chunks may bypass the parser. */
export class BypassedConnection {
  readonly socket: Socket
  /** Set by the listener of `idleChunkEvent` that answered the chunk. */
  isTaken = false
  readonly #server: Server
  readonly #parse: DataListener
  #hasParsed = false
  // An open span keeps the parser's place in the stream (law 15: bytes mean what the one parser says). Once too many
  // bytes are open, nothing bypasses the parser again.
  #open: Span | undefined
  #isTracked = true
  // Span of the chunk that this tick parses.
  #current: Span | undefined

  constructor (server: Server, socket: Socket, parse: DataListener) {
    this.#server = server
    this.socket = socket
    this.#parse = parse
  }

  /** Notes that the parser has read a request's head. */
  began (request: IncomingMessage): void {
    this.#current?.requests.push(request)
  }

  /** Calls back with the chunk that holds this request and nothing else; never if there is none. */
  whenWhole (request: IncomingMessage, onWhole: DataListener): void {
    if (this.#current?.requests[0] === request) this.#current.onWhole = onWhole
  }

  receive (chunk: Buffer): void {
    if (this.#isIdle) {
      this.isTaken = false
      this.#server.emit(idleChunkEvent, this, chunk)
      if (this.isTaken) return
    }
    this.#hasParsed = true
    if (this.#isTracked) this.#parseTracked(chunk)
    else this.#parse(chunk)
  }

  #parseTracked (chunk: Buffer): void {
    const open = this.#open
    const span: Span = open === undefined
      ? { bytes: chunk, requests: [] }
      : { bytes: Buffer.concat([open.bytes, chunk]), requests: open.requests }
    this.#current = span
    this.#parse(chunk)
    const rest = unfinishedPartOf(span)
    const isBetweenRequests = rest?.bytes.length === 0
    this.#isTracked = rest !== undefined && rest.bytes.length <= maxOpenBytes
    // Copies the bytes, since a chunk pins the larger buffer that it was read into.
    this.#open = rest === undefined || isBetweenRequests || !this.#isTracked
      ? undefined
      : { ...rest, bytes: Buffer.from(rest.bytes) }
    // Waits a tick, in which a request with a body is answered.
    process.nextTick(() => {
      if (isBetweenRequests && open === undefined && span.requests.length === 1) span.onWhole?.(chunk)
      if (this.#current === span) this.#current = undefined
    })
  }

  // Writing past a pending response, or before unsent bytes, would change the order of responses. The parser gets the
  // first chunk always, since its time limit for a head would end the connection.
  get #isIdle (): boolean {
    const { socket } = this
    return this.#hasParsed && this.#isTracked && this.#open === undefined && socket.writable &&
      socket.writableLength === 0 && findPendingResponse(socket) === undefined
  }
}

/**
 * Returns the part of a span that may still become whole requests, without bytes where there is none; undefined if its
 * bytes are not its requests. The parser ends a head at the first empty line; line ends without a carriage return are
 * not trusted.
 */
function unfinishedPartOf ({ bytes, requests }: Span): Span | undefined {
  let at = 0
  for (const [nth, { complete, headers, method, url }] of requests.entries()) {
    const requestLine = `${method} ${url} HTTP/1.1\r\n`
    const isFramedByLength = headers['transfer-encoding'] === undefined
    if (!isFramedByLength || bytes.toString('latin1', at, at + requestLine.length) !== requestLine) return undefined
    if (!complete) return { bytes: bytes.subarray(at), requests: requests.slice(nth) }
    const emptyLine = bytes.indexOf('\n\r\n', at)
    const isTrusted = bytes[emptyLine - 1] === 13 && !bytes.subarray(at, emptyLine).includes('\n\n')
    if (emptyLine === -1 || !isTrusted) return undefined
    at = emptyLine + 3 + Number(headers['content-length'] ?? 0)
    if (at > bytes.length) return undefined
  }
  return { bytes: bytes.subarray(at), requests: [] }
}

import { type ChildProcess } from 'node:child_process'
import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import { Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'

// All that relies on undocumented parts of Node.js; each part is tested where Node shows its effect. Only this file
// removes listeners of Node or others, forges messages or uses private members (test/layers.test.ts).

type DataListener = (chunk: Buffer) => void

const connections = new WeakMap<Socket, BypassedConnection>()

/** Returns the connection of a socket whose chunks can bypass the parser. */
export function bypassedConnectionOf (socket: Socket): BypassedConnection | undefined {
  return connections.get(socket)
}

/** Takes a chunk of an idle connection from the parser, or returns false. */
export type ChunkListener = (socket: Socket, chunk: Buffer) => boolean

/**
 * Offers each chunk of an idle connection to a listener before Node's parser. Replaces the one listener that Node gives
 * its parser; calls `onUnsupported` once if a Node.js release has none.
 */
export function installParserBypass (
  server: Server,
  listener: () => ChunkListener | undefined,
  onUnsupported: () => void
): void {
  let isUnsupported = false
  server.on(server instanceof SecureServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (isUnsupported || socket.destroyed || listener() === undefined) return
    const [parse, ...others] = socket.listeners('data') as DataListener[]
    if (parse === undefined || others.length > 0) {
      isUnsupported = true
      onUnsupported()
      return
    }
    const connection = new BypassedConnection(listener, socket, parse)
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

/** Bytes that began between two requests, and the requests that began in these bytes. */
interface Span {
  readonly bytes: Buffer
  readonly requests: IncomingMessage[]
  onWhole?: DataListener
}

// Bounds the bytes that are copied of requests in pieces (law 10: nothing grows without bound).
const maxOpenBytes = 4096

/** Connection whose chunks may bypass the parser. */
export class BypassedConnection {
  readonly #socket: Socket
  readonly #listener: () => ChunkListener | undefined
  readonly #parse: DataListener
  #hasParsed = false
  // Takes over no bytes while a span is open, which keeps the parser's place in the stream (law 15: bytes mean what the
  // one parser says). Once too many bytes are open, nothing bypasses the parser again.
  #open: Span | undefined
  #isTracked = true
  // Span of the chunk that this tick parses.
  #current: Span | undefined

  constructor (listener: () => ChunkListener | undefined, socket: Socket, parse: DataListener) {
    this.#listener = listener
    this.#socket = socket
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
    if (this.#isIdle && this.#listener()?.(this.#socket, chunk) === true) return
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

  // Returns false while a response is pending or bytes are unsent, because writing past them would change the order of
  // responses. The parser gets the first chunk always, since its time limit for a head would end the connection.
  get #isIdle (): boolean {
    const socket = this.#socket
    return this.#hasParsed && this.#isTracked && this.#open === undefined && socket.writable &&
      socket.writableLength === 0 && findPendingResponse(socket) === undefined
  }
}

/**
 * Returns the part of a span that may still become whole requests, without bytes if there is none; undefined if its
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

/** Returns the response that a connection waits for, from the field that Node's own error handler reads. */
export function findPendingResponse (socket: Socket): ServerResponse | undefined {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse ? message : undefined
}

/**
 * Stops reading a socket: emits the events on which Node stops its handle. A public pause() would change the state of
 * the stream, which Node relies on, and Node undoes it.
 */
export function pauseReading (socket: Socket): void {
  pauseHandle.call(socket)
  socket.on('resume', pauseHandle)
}

/** Reads a socket again. */
export function resumeReading (socket: Socket): void {
  socket.off('resume', pauseHandle)
  // Skips sockets that Node paused: for an unread body until it is read, after a failed parse for good.
  if (!socket.isPaused()) socket.emit('resume')
}

function pauseHandle (this: Socket): void {
  this.emit('pause')
}

/** Node's internal printer of a response head: status line, given headers, then its own (Date, Connection). */
type PrintHead = (this: ServerResponse, firstLine: string, lines: readonly string[]) => void

const printHead = (ServerResponse.prototype as { readonly _storeHeader?: PrintHead })._storeHeader

/** Writes a response head of text that was validated before, and further lines; false if this Node.js cannot. */
export function writePrintedHead (
  response: ServerResponse,
  status: number,
  text: string,
  lines: readonly string[]
): boolean {
  if (printHead === undefined) return false
  response.statusCode = status
  printHead.call(response, text, lines)
  return true
}

/** Sets the largest request head, which Node reads for each new connection of an open server. */
export function setMaxHeaderSize (server: Server, maxHeaderSize: number): void {
  Object.assign(server, { maxHeaderSize })
}

/** The primary's own handle of a connection that it sends to a worker. */
interface Handle {
  close(): void
}

/**
 * Internal message of node:cluster that hands over or acknowledges a connection; undocumented by Node.js
 * (src/peers/README.md).
 */
interface ClusterMessage {
  readonly cmd?: unknown
  readonly act?: unknown
  readonly seq?: number
  readonly ack?: number
}

/** Connections that one worker could not accept; after a second failure they are closed. */
export type RejectedConnections = WeakSet<object>

/**
 * Closes connections that a worker never accepts. Without it node:cluster waits for ever, so their clients hang and the
 * worker gets no more.
 */
export function closeUnacceptedConnections (child: ChildProcess, rejectedConnections: RejectedConnections): void {
  // Skips a process that could not start, for want of file descriptors: it has no channel.
  if ((child as Partial<ChildProcess>).send === undefined) return
  const unaccepted = new Map<number, Handle>()
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  child.send = ((message: ClusterMessage, handle?: Handle, ...rest: unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) {
      unaccepted.set(message.seq, handle)
    }
    return send(message, handle, ...rest)
  }) as ChildProcess['send']
  child.on('internalMessage', ({ cmd, ack }: ClusterMessage) => {
    if (ack !== undefined) unaccepted.delete(ack)
    if (cmd === 'NODE_HANDLE_NACK') { for (const [seq, handle] of unaccepted) acknowledge(seq, handle) }
  })
  child.once('exit', () => {
    for (const handle of unaccepted.values()) handle.close()
  })

  // Acknowledges in the worker's place: first as rejected, so another worker gets the connection; then as accepted, so
  // it is closed.
  function acknowledge (seq: number, handle: Handle): void {
    const isAccepted = rejectedConnections.has(handle)
    rejectedConnections.add(handle)
    child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: isAccepted })
  }
}

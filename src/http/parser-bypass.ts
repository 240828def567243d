import { type IncomingMessage, type Server } from 'node:http'
import { Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import { findPendingResponse } from './find-pending-response.js'

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
    const receive: DataListener & { listener?: DataListener } = chunk => {
      connection.receive(chunk)
    }
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

/** Connection whose chunks may bypass the parser. */
export class BypassedConnection {
  readonly socket: Socket
  /** Set by the listener of `idleChunkEvent` that answered the chunk. */
  isTaken = false
  readonly #server: Server
  readonly #parse: DataListener
  // True if the parser has read whole requests only; the first chunk always goes to it.
  #isBetweenRequests = false
  // First request of the chunk that was parsed last, and the number of requests that begin in that chunk.
  #request: IncomingMessage | undefined
  #requestCount = 0
  #onWhole: DataListener | undefined

  constructor (server: Server, socket: Socket, parse: DataListener) {
    this.#server = server
    this.socket = socket
    this.#parse = parse
  }

  /** Notes that the parser has read a request's head. */
  began (request: IncomingMessage): void {
    if (++this.#requestCount === 1) this.#request = request
  }

  /** Calls back with the chunk that holds this request and nothing else; never if there is none. */
  whenWhole (request: IncomingMessage, onWhole: DataListener): void {
    if (this.#request === request && this.#requestCount === 1) this.#onWhole = onWhole
  }

  receive (chunk: Buffer): void {
    if (this.#isIdle) {
      this.isTaken = false
      this.#server.emit(idleChunkEvent, this, chunk)
      if (this.isTaken) return
    }
    this.#forget()
    this.#parse(chunk)
    if (this.#requestCount === 0) {
      this.#isBetweenRequests = false
      return
    }
    this.#isBetweenRequests = this.#requestCount === 1 && this.#request !== undefined &&
      isWholeRequest(chunk, this.#request)
    // Waits a tick, in which a request with a body is answered.
    process.nextTick(() => {
      if (this.#isBetweenRequests) this.#onWhole?.(chunk)
      this.#forget()
    })
  }

  // Writing past a pending response, or before unsent bytes, would change the order of responses.
  get #isIdle (): boolean {
    const { socket } = this
    return this.#isBetweenRequests && socket.writable && socket.writableLength === 0 &&
      findPendingResponse(socket) === undefined
  }

  #forget (): void {
    this.#request = undefined
    this.#requestCount = 0
    this.#onWhole = undefined
  }
}

/**
 * Returns true if the only request that began in a chunk also ends with it, whatever the parser had read before. The
 * parser ends a head at the first empty line; line ends without a carriage return are not trusted.
 */
function isWholeRequest (chunk: Buffer, { complete, headers }: IncomingMessage): boolean {
  const isFramedByLength = complete && headers['transfer-encoding'] === undefined
  // A line feed at the start could end a line of an earlier chunk.
  if (!isFramedByLength || chunk[0] === 10 || chunk[0] === 13) return false
  const emptyLine = chunk.indexOf('\n\r\n')
  const bareEmptyLine = chunk.indexOf('\n\n')
  return emptyLine > 0 && chunk[emptyLine - 1] === 13 && (bareEmptyLine === -1 || bareEmptyLine > emptyLine) &&
    emptyLine + 3 + Number(headers['content-length'] ?? 0) === chunk.length
}

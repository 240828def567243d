import { type Server, type ServerResponse } from 'node:http'
import { Server as SecureServer } from 'node:https'
import { type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type CutReason } from '../metrics/cut-reasons.js'
import { answerOn } from './answer-on.js'
import { type Reader, tooSlowFor } from './in-flight.js'
import { Taking } from './taking.js'

/** Who is told of connections that were ended. */
export interface ConnectionsTally {
  cut(reason: CutReason): void
  /** So many found no room since it was last told, while so many may be open. */
  onFull(turnedAway: number, limit: number): void
}

/** How much the clients of one process may have at a time. */
export interface ClientLimits {
  readonly connections: number
  /** Of memory that responses hold which their clients have yet to take. */
  readonly inFlightBytes: number
}

/**
 * Of a connection that requests come on: what had gone each way a second ago, and for how many seconds nothing was
 * answered or to be answered.
 */
interface Line {
  read: number
  written: number
  idleTicks: number
  readonly taking: Taking
}

interface Behind extends Reader {
  readonly socket: Socket
}

// Beyond the time that Node gives an idle connection, which every blank line begins anew.
const mostIdleTicks = 80
// The log is told of what may happen thousands of times a second.
const tellEveryTicks = 10

/**
 * The connections of clients: no more than there is room for, and none that is held by a client that does nothing with
 * it while others want it, and no more memory in their responses than may be in flight.
 */
export class ClientConnections {
  readonly #tally: ConnectionsTally
  readonly #open = new Set<Socket>()
  readonly #lines = new Map<Socket, Line>()
  // What was cut off says that it is closed a while later: were it counted until then, another would be ended for it
  // too.
  readonly #ending = new Set<Socket>()
  // Of responses too long to be handed to the system at once.
  readonly #bodies = new WeakMap<ServerResponse, Buffer>()
  readonly #inFlightBytes: number
  #limit: number
  // The idle ones as they were when one was last wanted in this second, the longest idle last.
  #idle: Socket[] | undefined
  #turnedAway = 0
  #ticksUntold = tellEveryTicks

  constructor ({ connections, inFlightBytes }: ClientLimits, tally: ConnectionsTally) {
    this.#limit = connections
    this.#inFlightBytes = inFlightBytes
    this.#tally = tally
  }

  /** How many are open, those within their TLS handshake too. */
  get open (): number {
    return this.#open.size - this.#ending.size
  }

  /** Whether another one is opened only in the place of an idle one, if at all. */
  get isFull (): boolean {
    return this.open >= this.#limit
  }

  /** So many may be open from now on. */
  allow (limit: number): void {
    this.#limit = limit
  }

  /** Looks after what a server accepts. */
  attach (server: Server): void {
    const isSecure = server instanceof SecureServer
    server.on('connection', (socket: Socket) => {
      if (this.#hasRoomFor(socket) && !isSecure) this.#follow(socket)
    })
    if (isSecure) {
      server.on('secureConnection', (socket: Socket) => {
        this.#follow(socket)
      })
    }
  }

  /** Notes a body that stays in memory until its client has taken the response. */
  holds (response: ServerResponse, body: Buffer): void {
    this.#bodies.set(response, body)
  }

  /** Forgets a body that is handed on whole, though its response goes on. */
  releases (response: ServerResponse): void {
    this.#bodies.delete(response)
  }

  /** A second has passed. */
  tick (): void {
    this.#idle = undefined
    const behind: Behind[] = []
    for (const [socket, line] of this.#lines) {
      this.#look(socket, line)
      if (line.taking.behindTicks > 0 && this.#lines.has(socket)) behind.push(this.#behind(socket, line))
    }
    for (const { socket } of tooSlowFor(this.#inFlightBytes, behind)) this.#cut(socket, 'memory')
    // Fewer may have been allowed.
    for (let over = this.open - this.#limit; over > 0 && this.#makesRoom(); over--);
    this.#ticksUntold++
    if (this.#turnedAway === 0 || this.#ticksUntold < tellEveryTicks) return
    this.#tally.onFull(this.#turnedAway, this.#limit)
    this.#turnedAway = 0
    this.#ticksUntold = 0
  }

  #hasRoomFor (socket: Socket): boolean {
    if (this.isFull && !this.#makesRoom()) {
      this.#turnedAway++
      this.#tally.cut('full')
      socket.destroy()
      return false
    }
    this.#open.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
    })
    return true
  }

  #follow (socket: Socket): void {
    this.#lines.set(socket, { read: 0, written: 0, idleTicks: 0, taking: new Taking() })
    socket.once('close', () => {
      this.#lines.delete(socket)
      this.#ending.delete(socket)
    })
  }

  #look (socket: Socket, line: Line): void {
    line.idleTicks = isQuiet(socket, line) ? line.idleTicks + 1 : 0
    line.read = socket.bytesRead
    line.written = socket.bytesWritten
    line.taking.look(socket)
    if (line.taking.isStalled) this.#cut(socket, 'reading')
    else if (line.idleTicks > mostIdleTicks) this.#cut(socket, 'head')
  }

  #behind (socket: Socket, { taking }: Line): Behind {
    const response = answerOn(socket)
    const body = response && this.#bodies.get(response)
    return { socket, taking, memory: body?.buffer, queuedBytes: socket.writableLength }
  }

  #cut (socket: Socket, reason: CutReason): void {
    this.#lines.delete(socket)
    this.#ending.add(socket)
    this.#tally.cut(reason)
    // The system would go on offering what it has taken over to a client that does not read.
    if ((reason === 'reading' || reason === 'memory') && !(socket instanceof TLSSocket)) socket.resetAndDestroy()
    else socket.destroy()
  }

  /** Ends the connection that has been idle for longest; whether there was one. */
  #makesRoom (): boolean {
    this.#idle ??= this.#idleOnes()
    for (;;) {
      const socket = this.#idle.pop()
      if (socket === undefined) return false
      const line = this.#lines.get(socket)
      // It may have gone meanwhile, or be in use again.
      if (line === undefined || socket.destroyed || !isQuiet(socket, line) || socket.bytesRead !== line.read) continue
      this.#cut(socket, 'room')
      return true
    }
  }

  #idleOnes (): Socket[] {
    return [...this.#lines].filter(([, { idleTicks }]) => idleTicks > 0).sort(([, a], [, b]) =>
      a.idleTicks - b.idleTicks
    ).map(([socket]) => socket)
  }
}

// What a client sends is no use of a connection until it is a request.
function isQuiet (socket: Socket, { written }: Line): boolean {
  return answerOn(socket) === undefined && socket.bytesWritten === written
}

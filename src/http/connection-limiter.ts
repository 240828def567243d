import { closeSync, openSync, readSync } from 'node:fs'
import { type Server, type ServerResponse } from 'node:http'
import { Server as SecureServer } from 'node:https'
import { type AddressInfo, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type ConnectionCutReason } from '../metrics/definitions.js'
import { type HeldBytes, type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { clientShare, ClientShares } from '../clients/client-shares.js'
import { peerNetworkOf } from './client-address.js'
import { findPendingResponse } from '../node.js'

/** Receives counts of connections that varve closed. */
export interface ClosedConnectionMetrics {
  cut(reason: ConnectionCutReason): void
  /** Reports new connections that were closed since the last report, and the limit that they met. */
  onFull(rejected: number, limit: number): void
}

/** Limits on the clients of one process. */
export interface ConnectionLimits {
  readonly connections: number
  /** Budget that holds the bodies which clients have not taken yet. */
  readonly inFlight: Pick<InFlightBytes, 'holdSent' | 'maxUnreadBytes'>
}

/** A client with unread response bytes, and the memory of that response. */
interface SlowReader {
  readonly socket: Socket
  readonly state: ConnectionState
  /** Buffer of the body, which responses may share; if undefined, only the queued bytes count. */
  readonly memory: ArrayBufferLike | undefined
}

// Our own limit: a blank line restarts Node's keep-alive timeout, so it alone would hold a connection for ever.
const maxIdleTicks = 80
// Limits the log to one line per 10 s: connections may be rejected thousands of times a second.
const reportEveryTicks = 10

/**
 * Enforces limits on client connections: their count (idle ones are closed for new ones), idle time, stalled readers,
 * and bytes that slow readers hold.
 */
export class ConnectionLimiter {
  readonly #metrics: ClosedConnectionMetrics
  readonly #states = new Map<Socket, ConnectionState>()
  readonly #open = new ClientShares<Socket>()
  // Network with more than half of the connections, of which there can be only one.
  #largestNetwork = ''
  // Sockets that are destroyed but whose close event has not come; counting them would close further connections.
  readonly #closing = new Set<Socket>()
  // Bodies that stay in memory until their clients have taken them.
  readonly #bodies = new WeakMap<ServerResponse | Socket, { readonly body: Buffer, readonly held: HeldBytes }>()
  readonly #inFlight: ConnectionLimits['inFlight']
  #limit: number
  // Idle connections, longest idle last; computed at most once per tick.
  #idle: Socket[] | undefined
  #rejected = 0
  #server: Server | undefined
  #ticksSinceReport = reportEveryTicks

  constructor ({ connections, inFlight }: ConnectionLimits, metrics: ClosedConnectionMetrics) {
    this.#limit = connections
    this.#inFlight = inFlight
    this.#metrics = metrics
  }

  /** Number of open connections, including those in their TLS handshake. */
  get open (): number {
    return this.#open.size - this.#closing.size
  }

  /** Connections that the kernel holds until the server accepts them; undefined if the system does not say. */
  get waiting (): number | undefined {
    return this.#server && countWaitingConnections(this.#server)
  }

  /** True at the limit: a new connection then replaces an idle one, or is closed. */
  get isFull (): boolean {
    return this.open >= this.#limit
  }

  setLimit (limit: number): void {
    this.#limit = limit
  }

  /** Starts to track the connections of a server. */
  attach (server: Server): void {
    this.#server = server
    const isSecure = server instanceof SecureServer
    server.on('connection', (socket: Socket) => {
      if (this.#admit(socket) && !isSecure) this.#track(socket)
    })
    if (isSecure) server.on('secureConnection', (socket: Socket) => this.#track(socket))
  }

  /** Counts a body as memory in flight until its client has taken the response. */
  trackBody (response: ServerResponse | Socket, body: Buffer): void {
    const held = this.#inFlight.holdSent(body.buffer)
    this.#bodies.set(response, { body, held })
    if (response.destroyed) held.release()
    response.once('close', held.release)
  }

  /** Counts a body that varve wrote to the socket itself, until the kernel has taken the body. */
  trackUnsent (socket: Socket, body: Buffer): void {
    this.trackBody(socket, body)
    socket.write('', () => this.untrackBody(socket))
  }

  /** Stops counting a body whose last chunk was written, while its response or socket continues. */
  untrackBody (response: ServerResponse | Socket): void {
    const tracked = this.#bodies.get(response)
    if (tracked === undefined) return
    this.#bodies.delete(response)
    response.off('close', tracked.held.release)
    tracked.held.release()
  }

  /** Applies the limits; the caller ticks once a second. */
  tick (): void {
    this.#idle = undefined
    const slow: SlowReader[] = []
    for (const [socket, state] of this.#states) {
      state.sample(socket)
      if (state.isStalled) this.#cut(socket, 'stalled')
      else if (state.idleTicks > maxIdleTicks) this.#cut(socket, 'head')
      else if (state.backlogTicks > 0) {
        const response = findPendingResponse(socket)
        const tracked = (response && this.#bodies.get(response)) ?? this.#bodies.get(socket)
        slow.push({ socket, state, memory: tracked?.body.buffer })
      }
    }
    for (const { socket } of readersToCut(this.#inFlight.maxUnreadBytes, slow)) this.#cut(socket, 'memory')
    // Closes idle connections after a reload has lowered the limit.
    for (let excess = this.open - this.#limit; excess > 0 && this.#closeIdle(); excess--);
    this.#ticksSinceReport++
    if (this.#rejected === 0 || this.#ticksSinceReport < reportEveryTicks) return
    this.#metrics.onFull(this.#rejected, this.#limit)
    this.#rejected = 0
    this.#ticksSinceReport = 0
  }

  #admit (socket: Socket): boolean {
    const network = peerNetworkOf(socket) ?? ''
    if (this.isFull && !this.#closeIdle() && !this.#closeOfLargest(network)) {
      this.#rejected++
      this.#metrics.cut('connection_limit')
      socket.destroy()
      return false
    }
    this.#open.add(network, socket)
    if (this.#open.of(network).size > this.#limit * clientShare) this.#largestNetwork = network
    socket.once('close', () => {
      this.#open.remove(network, socket)
      this.#closing.delete(socket)
    })
    return true
  }

  /**
   * Closes the oldest connection of a network that has more than its share, to let in another network. Returns false if
   * no network has.
   */
  #closeOfLargest (newcomer: string): boolean {
    const ofNetwork = this.#open.of(this.#largestNetwork)
    if (newcomer === this.#largestNetwork || ofNetwork.size <= this.#limit * clientShare) return false
    // Takes the first of the set without a copy, because every connection of a flood comes here.
    for (const oldest of ofNetwork) {
      if (this.#closing.has(oldest)) continue
      this.#cut(oldest, 'connection_limit')
      return true
    }
    return false
  }

  #track (socket: Socket): void {
    this.#states.set(socket, new ConnectionState())
    socket.once('close', () => {
      this.#states.delete(socket)
      this.#closing.delete(socket)
    })
  }

  #cut (socket: Socket, reason: ConnectionCutReason): void {
    this.#states.delete(socket)
    this.#closing.add(socket)
    this.#metrics.cut(reason)
    // Resets: on a plain close the kernel would keep offering its buffer to a client that does not read.
    if ((reason === 'stalled' || reason === 'memory') && !(socket instanceof TLSSocket)) socket.resetAndDestroy()
    else socket.destroy()
  }

  /** Closes the connection that has been idle longest; returns false if none is idle. */
  #closeIdle (): boolean {
    this.#idle ??= this.#findIdle()
    for (;;) {
      const socket = this.#idle.pop()
      if (socket === undefined) return false
      const state = this.#states.get(socket)
      // Skips connections that were closed or used since the list of idle ones was made.
      if (state === undefined || socket.destroyed || !isIdle(socket, state) || socket.bytesRead !== state.bytesRead) {
        continue
      }
      this.#cut(socket, 'idle')
      return true
    }
  }

  #findIdle (): Socket[] {
    return [...this.#states].filter(([, { idleTicks }]) => idleTicks > 0).sort(([, a], [, b]) =>
      a.idleTicks - b.idleTicks
    ).map(([socket]) => socket)
  }
}

// Ignores received bytes, because a client could otherwise keep a connection for ever without completing a request.
function isIdle (socket: Socket, { bytesWritten }: ConnectionState): boolean {
  return findPendingResponse(socket) === undefined && socket.writableLength === 0 &&
    socket.bytesWritten === bytesWritten
}

// Spares a new backlog for these seconds, in which a short network outage recovers.
const graceTicks = 6

/**
 * Returns the clients to cut, slowest first, so that responses in flight fit the limit (law 10: nothing grows without
 * bound).
 */
function readersToCut (limitBytes: number, readers: readonly SlowReader[]): SlowReader[] {
  const sharers = new Map<ArrayBufferLike, number>()
  let bytes = 0
  // Adds a client to those that share its buffer, or removes it; returns the bytes that the change takes or frees.
  const changeSharers = ({ memory, socket }: SlowReader, change: 1 | -1): number => {
    if (memory === undefined) return socket.writableLength
    const before = sharers.get(memory) ?? 0
    sharers.set(memory, before + change)
    return Math.min(before, before + change) === 0 ? memory.byteLength : 0
  }
  for (const reader of readers) bytes += changeSharers(reader, 1)
  if (bytes <= limitBytes) return []
  const cut: SlowReader[] = []
  const slowestFirst = readers.filter(({ state }) => state.backlogTicks > graceTicks).sort(
    // Breaks ties by backlog time, because a new client may not have reached its speed yet.
    ({ state: a }, { state: b }) => a.bytesPerSecond - b.bytesPerSecond || b.backlogTicks - a.backlogTicks
  )
  for (const reader of slowestFirst) {
    if (bytes <= limitBytes) break
    bytes -= changeSharers(reader, -1)
    cut.push(reader)
  }
  return cut
}

// Exceeds the pauses that the kernel's buffering causes: up to 79 s at 16 KB/s.
const maxStalledTicks = 120

/**
 * State of a connection, with the speed at which its client takes a response, measured once the kernel's buffer is
 * full.
 */
class ConnectionState {
  bytesRead = 0
  bytesWritten = 0
  /** Seconds without a response sent or due. */
  idleTicks = 0
  /** Seconds for which the response has had bytes that the kernel did not take. */
  backlogTicks = 0
  #stalledTicks = 0
  #firstTakenBytes = 0
  #takenBytes = 0

  /** Takes a sample; the caller samples once a second. */
  sample (socket: Socket): void {
    const { bytesRead, bytesWritten, writableLength } = socket
    this.idleTicks = isIdle(socket, this) ? this.idleTicks + 1 : 0
    this.bytesRead = bytesRead
    this.bytesWritten = bytesWritten
    const takenBytes = bytesWritten - writableLength
    if (writableLength === 0) this.backlogTicks = 0
    else if (++this.backlogTicks === 1) this.#firstTakenBytes = takenBytes
    this.#stalledTicks = this.backlogTicks > 1 && takenBytes === this.#takenBytes ? this.#stalledTicks + 1 : 0
    this.#takenBytes = takenBytes
  }

  /** True after 120 s in which the client took nothing. */
  get isStalled (): boolean {
    return this.#stalledTicks >= maxStalledTicks
  }

  /** Average speed, without the bytes that first filled the kernel's buffer. */
  get bytesPerSecond (): number {
    return (this.#takenBytes - this.#firstTakenBytes) / this.backlogTicks
  }
}

// Reads the start of the kernel's table, which lists listening sockets first, in lines of at most 176 bytes.
const readBytes = 65_536

/** Counts the connections that the kernel holds until a server accepts them; undefined if the system does not say. */
export function countWaitingConnections (server: Pick<Server, 'address'>): number | undefined {
  const address = server.address()
  return address === null || typeof address === 'string' ? undefined : countIn(address)
}

function countIn ({ family, port }: AddressInfo): number | undefined {
  const listening = new RegExp(
    `^ *\\d+: [\\dA-F]+:${port.toString(16).toUpperCase().padStart(4, '0')} [\\dA-F]+:0000 0A [\\dA-F]+:([\\dA-F]+) `,
    'gm'
  )
  const waiting = [...beginningOf(`/proc/self/net/tcp${family === 'IPv6' ? '6' : ''}`).matchAll(listening)]
  return waiting.length === 0
    ? undefined
    : waiting.reduce((sum, [, queued = '']) => sum + Number.parseInt(queued, 16), 0)
}

function beginningOf (path: string): string {
  try {
    const file = openSync(path, 'r')
    try {
      const bytes = Buffer.alloc(readBytes)
      let length = 0
      // One read returns a page at most.
      for (let read = -1; read !== 0 && length < readBytes; length += read) {
        read = readSync(file, bytes, length, readBytes - length, null)
      }
      return bytes.toString('latin1', 0, length)
    } finally {
      closeSync(file)
    }
  } catch {
    return ''
  }
}

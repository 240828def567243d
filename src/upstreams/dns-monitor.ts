import { type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { DnsCache, type Resolve } from './dns-cache.js'

/** Settings for following the host name of an upstream. */
export interface DnsMonitorOptions {
  readonly hostname: string
  readonly timeoutMs: number
  readonly now: () => number
  /** Absent: the system resolver. */
  readonly resolve?: Resolve | undefined
  /** Absent: 15 s. */
  readonly resolveEveryMs?: number | undefined
}

const defaultResolveEveryMs = 15_000
// Two equal lookups in a row make addresses steady. Answers of rotating names vary, so their addresses expire only
// after 40 intervals.
const steadyAfterIntervals = 1.8
const expiredAfterIntervals = 40

/** Connection that can end once its address left the host name. */
class MonitoredConnection extends Client {
  resolvedAtMs = 0
  #socket: Socket | undefined
  #isDraining = false

  /** Remote address; undefined while not connected. */
  get address (): string | undefined {
    // Drops the zone of a link-local address, which DNS answers do not have.
    return this.#socket?.remoteAddress?.split('%', 1).join('')
  }

  recordOpened (socket: Socket, nowMs: number): void {
    this.#socket = socket
    this.#isDraining = false
    this.resolvedAtMs = nowMs
  }

  /** Records that the host name still resolves to its address. */
  confirm (nowMs: number): void {
    this.resolvedAtMs = nowMs
    this.#isDraining = false
  }

  /** Closes the connection when idle, so that the next request connects to a current address. */
  drain (): void {
    this.#isDraining = true
    this.#closeIfIdle()
  }

  override dispatch (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#isDraining) this.#closeIfIdle()
    return super.dispatch(options, handler)
  }

  #closeIfIdle (): void {
    if (this.stats.size === 0) this.#socket?.destroy()
  }
}

/**
 * Drains connections to addresses that the host name left. Names with rotating answers keep connections much longer.
 */
export class DnsMonitor {
  /** Lookup function for sockets; undefined where the host is an IP address. */
  readonly lookup: LookupFunction | undefined
  readonly #options: DnsMonitorOptions
  readonly #connections = new Set<MonitoredConnection>()
  #addresses = ''
  #unchangedSinceMs = 0
  readonly #timer: NodeJS.Timeout | undefined

  constructor (options: DnsMonitorOptions) {
    const { hostname, resolveEveryMs = defaultResolveEveryMs } = options
    this.#options = options
    if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return
    const dnsCache = new DnsCache({
      ...options,
      onAnswer: (_hostname, addresses) => {
        this.#applyAddresses(addresses)
      }
    })
    this.lookup = dnsCache.lookup
    // Resolves once at the start too, so a later change is noticed even before the first request.
    const refresh = (): void => {
      dnsCache.refresh(hostname).catch(() => {})
    }
    this.#timer = setInterval(refresh, resolveEveryMs).unref()
    refresh()
  }

  /** Creates the connections of a pool. */
  readonly createConnection = (origin: URL, options: object): Dispatcher => {
    const connect = (options as { connect: buildConnector.connector }).connect
    const connection: MonitoredConnection = new MonitoredConnection(origin, {
      ...options,
      connect: (connectOptions, callback) => {
        connect(connectOptions, (...result) => {
          const [error, socket] = result
          if (error === null) this.#addConnection(connection, socket)
          callback(...result)
        })
      }
    })
    return connection
  }

  close (): void {
    clearInterval(this.#timer)
  }

  #addConnection (connection: MonitoredConnection, socket: Socket): void {
    connection.recordOpened(socket, this.#options.now())
    this.#connections.add(connection)
    socket.once('close', () => {
      this.#connections.delete(connection)
    })
  }

  #applyAddresses (addresses: readonly LookupAddress[]): void {
    const { now, resolveEveryMs = defaultResolveEveryMs } = this.#options
    const nowMs = now()
    const resolved = new Set(addresses.map(({ address }) => address))
    const joined = [...resolved].sort().join()
    if (joined !== this.#addresses) {
      this.#addresses = joined
      this.#unchangedSinceMs = nowMs
    }
    const isSteady = nowMs - this.#unchangedSinceMs >= steadyAfterIntervals * resolveEveryMs
    for (const connection of this.#connections) {
      if (connection.address === undefined || resolved.has(connection.address)) connection.confirm(nowMs)
      else if (isSteady || nowMs - connection.resolvedAtMs >= expiredAfterIntervals * resolveEveryMs) connection.drain()
    }
  }
}

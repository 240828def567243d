import { connect as connectPlain, type LookupFunction, type Socket } from 'node:net'
import { connect as connectSecure, type ConnectionOptions } from 'node:tls'
import { AbstractConnector, SentinelConnector } from 'ioredis'

/** What ioredis says of one server. */
interface Server {
  readonly host?: string
  readonly port?: number
  readonly tls?: ConnectionOptions
  readonly lookup?: LookupFunction
  readonly disconnectTimeout: number
}

/**
 * Connects to one server. The library's own hears one error of a socket alone; a TLS socket that is left in the middle
 * of a handshake tells of two where the certificate is refused, and one that nobody hears ends the process.
 */
export class ServerConnector extends AbstractConnector {
  readonly #server: Server

  constructor (options: unknown) {
    const server = options as Server
    super(server.disconnectTimeout)
    this.#server = server
  }

  async connect (): Promise<Socket> {
    const { host = 'localhost', port = 6379, tls, lookup } = this.#server
    const where = { host, port, ...(lookup && { lookup }) }
    this.connecting = true
    this.stream = tls === undefined ? connectPlain(where) : connectSecure({ ...where, ...tls })
    return this.stream.on('error', error => {
      this.firstError ??= error
    })
  }
}

/** Finds the master by its sentinels and connects to it, with an ear for every error too. */
export class MasterConnector extends SentinelConnector {
  constructor (options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0])
    // Its connections to sentinels would be the library's own; and nobody hears the errors of those that listen for a
    // failover, which it then writes to the standard error.
    const own = this as unknown as { connectToSentinel: (sentinel: unknown, more?: object) => NodeJS.EventEmitter }
    const connect = own.connectToSentinel.bind(this)
    const { lookup } = options as Server
    own.connectToSentinel = (sentinel, more) =>
      connect(sentinel, { ...more, ...(lookup && { lookup }), Connector: ServerConnector }).on('error', () => {})
  }

  override async connect (tell: (type: string, error: Error) => void): Promise<Socket> {
    return (await super.connect(tell)).on('error', () => {})
  }
}

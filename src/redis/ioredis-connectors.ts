import { connect as connectPlain, type LookupFunction, type Socket } from 'node:net'
import { connect as connectSecure, type ConnectionOptions } from 'node:tls'
import { AbstractConnector, SentinelConnector } from 'ioredis'

/** Options that ioredis passes for one server. */
interface Server {
  readonly host?: string
  readonly port?: number
  readonly tls?: ConnectionOptions
  readonly lookup?: LookupFunction
  readonly disconnectTimeout: number
}

/**
 * Connects to one server and listens for every error. ioredis listens once; a failed TLS handshake emits two, and the
 * second would end the process.
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
    const target = { host, port, ...(lookup && { lookup }) }
    this.connecting = true
    this.stream = tls === undefined ? connectPlain(target) : connectSecure({ ...target, ...tls })
    return this.stream.on('error', error => {
      this.firstError ??= error
    })
  }
}

/** Finds the master through sentinels, with listeners for every error. */
export class MasterConnector extends SentinelConnector {
  constructor (options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0])
    // Gives sentinel connections our connector; their failover subscriptions need an error listener, else ioredis
    // writes errors to standard error.
    const internals = this as unknown as {
      connectToSentinel: (sentinel: unknown, more?: object) => NodeJS.EventEmitter
    }
    const connect = internals.connectToSentinel.bind(this)
    const { lookup } = options as Server
    internals.connectToSentinel = (sentinel, more) =>
      connect(sentinel, { ...more, ...(lookup && { lookup }), Connector: ServerConnector }).on('error', () => {})
  }

  override async connect (emitEvent: (type: string, error: Error) => void): Promise<Socket> {
    return (await super.connect(emitEvent)).on('error', () => {})
  }
}

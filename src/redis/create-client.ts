import { type LookupFunction, connect as connectPlain, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  connect as connectSecure
} from 'node:tls'
import {
  Cluster,
  type ClusterOptions,
  type DNSLookupFunction,
  Redis,
  type RedisOptions,
  AbstractConnector,
  SentinelConnector
} from 'ioredis'

/** Lists the servers that hold the keys of a client. */
export function mastersOf (client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client]
}

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

/** Finds the master through sentinels; every connection gets a listener for every error. */
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

/** Address and credentials of Redis: exactly one of `url`, `cluster` and `sentinel` is set. */
export interface RedisConnectionOptions {
  readonly url: string | null
  readonly cluster: readonly RedisHost[]
  readonly sentinel: {
    readonly name: string | null,
    readonly hosts: readonly RedisHost[],
    readonly password: string | null
  }
  readonly username: string | null
  readonly password: string | null
  readonly tls: boolean
  /** PEM text of a CA to trust besides those of Node.js. */
  readonly ca: string | undefined
  /** Absent: the system resolver. */
  readonly lookup?: LookupFunction
}

/** Address of one server of a cluster or sentinel. */
export interface RedisHost {
  readonly host: string
  readonly port: number
}

/** Client of a single server, a sentinel set or a cluster. */
export type RedisClient = Redis | Cluster

type ClientOptions = Omit<RedisOptions, 'replyMapping'> & { lookup?: LookupFunction }

// Upper limit for commands without a limit of their own, such as those that no read waits for.
const commandTimeoutMs = 2000
const connectTimeoutMs = 2000
const socketTimeoutMs = 1000
const slotsRefreshMs = 5000

/**
 * Creates a client not connected yet. It fails commands at once while disconnected (law 6: the cache can only
 * help), and reconnects by itself.
 */
export function createClient (options: RedisConnectionOptions): RedisClient {
  return options.cluster.length > 0
    ? createClusterClient(options)
    : createServerClient(options, retryDelayMs)
}

/** Reads the slots again at times, because the timer of ioredis outlives a disconnect during a refresh. */
function createClusterClient (options: RedisConnectionOptions): Cluster {
  const cluster = new Cluster([...options.cluster], clusterOptionsOf(options))
  const timer = setInterval(() => {
    if (cluster.status === 'ready') cluster.refreshSlotsCache()
  }, slotsRefreshMs).unref()
  cluster.once('end', () => clearInterval(timer))
  return cluster
}

/**
 * Creates a client for subscriptions. In a cluster one server is enough, since messages reach all; each attempt uses
 * the next.
 */
export function createSubscriberClient (options: RedisConnectionOptions, attempt: number): Redis {
  const { cluster } = options
  return createServerClient(options, () => null, cluster[attempt % Math.max(1, cluster.length)])
}

function createServerClient (
  options: RedisConnectionOptions,
  retryStrategy: (times: number) => number | null,
  host?: RedisHost
): Redis {
  const { url, sentinel } = options
  const clientOptions = { ...clientOptionsOf(options), enableOfflineQueue: false, retryStrategy }
  if (host !== undefined) return new Redis({ ...clientOptions, ...host })
  return url === null
    ? new Redis({ ...clientOptions, ...sentinelOptionsOf(options, sentinel) })
    : new Redis(urlWithCredentials(url, options), clientOptions)
}

/**
 * Gives the configured username and password precedence: ioredis would prefer those in the URL, even an absent
 * password.
 */
function urlWithCredentials (url: string, { username, password }: RedisConnectionOptions): string {
  const parsed = new URL(url)
  if (username !== null) parsed.username = encodeURIComponent(username)
  if (password !== null) parsed.password = encodeURIComponent(password)
  return parsed.href
}

function clientOptionsOf (options: RedisConnectionOptions): ClientOptions {
  const { username, password } = options
  return {
    Connector: ServerConnector,
    ...(options.lookup && { lookup: options.lookup }),
    lazyConnect: true,
    connectionName: 'varve',
    maxRetriesPerRequest: 0,
    commandTimeout: commandTimeoutMs,
    connectTimeout: connectTimeoutMs,
    autoResendUnfulfilledCommands: false,
    // The subscriber subscribes by itself, once it knows that the server is Redis.
    autoResubscribe: false,
    // Servers and proxies without RESP3 are still common, and RESP2 suffices here.
    protocol: 2,
    ...(username !== null && { username }),
    ...(password !== null && { password }),
    ...(isSecure(options) && { tls: tlsOf(options) })
  }
}

function clusterOptionsOf (
  options: RedisConnectionOptions
): Omit<ClusterOptions, 'redisOptions'> & { redisOptions: ClientOptions } {
  const { lookup } = options
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    ...(lookup && {
      dnsLookup: (hostname: string, callback: Parameters<DNSLookupFunction>[1]) =>
        lookup(hostname, {}, (error, address, family) => callback(error, String(address), family))
    }),
    // Replaces a hanging connection; commands fail at once while the new one is made.
    redisOptions: { ...clientOptionsOf(options), socketTimeout: socketTimeoutMs },
    clusterRetryStrategy: retryDelayMs,
    slotsRefreshTimeout: connectTimeoutMs,
    // Disables retries: a read has no time for them. Keys of a failed server are misses until the cluster has
    // reassigned them.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    maxRedirections: 4
  }
}

function sentinelOptionsOf (
  options: RedisConnectionOptions,
  { name, hosts, password }: RedisConnectionOptions['sentinel']
): ClientOptions {
  return {
    Connector: MasterConnector,
    sentinels: [...hosts],
    name: name ?? '',
    sentinelRetryStrategy: retryDelayMs,
    sentinelCommandTimeout: connectTimeoutMs,
    // Detects a failover, else clients of a disconnected master would keep writing to it.
    failoverDetector: true,
    ...(password !== null && { sentinelPassword: password }),
    ...(isSecure(options) && { enableTLSForSentinelMode: true, sentinelTLS: tlsOf(options) })
  }
}

function isSecure ({ url, tls }: RedisConnectionOptions): boolean {
  return tls || url?.startsWith('rediss:') === true
}

// Caches TLS contexts: parsing all certificates of Node.js per connection attempt would block reads noticeably.
const secureContexts = new WeakMap<RedisConnectionOptions, SecureContext>()

function tlsOf (options: RedisConnectionOptions): ConnectionOptions {
  if (options.ca === undefined) return {}
  const secureContext = secureContexts.get(options) ?? createSecureContext({ ca: [...rootCertificates, options.ca] })
  secureContexts.set(options, secureContext)
  return { secureContext }
}

function retryDelayMs (times: number): number {
  return Math.min(100 * times, 1000)
}

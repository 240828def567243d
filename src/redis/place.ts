import { type LookupFunction } from 'node:net'
import { type ConnectionOptions, createSecureContext, rootCertificates, type SecureContext } from 'node:tls'
import { Cluster, type ClusterOptions, type DNSLookupFunction, Redis, type RedisOptions } from 'ioredis'
import { MasterConnector, ServerConnector } from './connector.js'

/** Where Redis is and how it is reached: exactly one of `url`, `cluster` and `sentinel` is set. */
export interface RedisPlace {
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
  /** The text of a CA to believe beside those that Node brings. */
  readonly ca: string | undefined
  /** What finds the addresses of names; left out for the system. */
  readonly lookup?: LookupFunction
}

/** One server of several. */
export interface RedisHost {
  readonly host: string
  readonly port: number
}

/** A connection to Redis of whatever kind. */
export type RedisClient = Redis | Cluster

type Options = Omit<RedisOptions, 'replyMapping'> & { lookup?: LookupFunction }

// Every answer is waited for in its own time; this is only for what nobody waits for, so that nothing waits for ever.
const longestMs = 2000
const connectMs = 2000
const silentMs = 1000

/**
 * A client that is not connected yet. It never waits for a server that is not there: what cannot be sent now fails now
 * (the cache can only help, law 6), and it comes back by itself.
 */
export function clientFor (place: RedisPlace): RedisClient {
  const { url, cluster, sentinel } = place
  if (cluster.length > 0) return new Cluster([...cluster], clusterOptions(place))
  if (url !== null) {
    return new Redis(urlOf(url, place), { ...optionsOf(place), retryStrategy: again, enableOfflineQueue: false })
  }
  return new Redis({
    ...optionsOf(place),
    retryStrategy: again,
    enableOfflineQueue: false,
    ...sentinelOptions(place, sentinel)
  })
}

/**
 * A client to listen with: of a cluster a single server, since messages reach all of them, the next for each attempt.
 */
export function listenerFor (place: RedisPlace, attempt: number): Redis {
  const { url, cluster, sentinel } = place
  const options = { ...optionsOf(place), enableOfflineQueue: false, retryStrategy: () => null }
  const host = cluster[attempt % Math.max(1, cluster.length)]
  if (host !== undefined) return new Redis({ ...options, ...host })
  return url === null
    ? new Redis({ ...options, ...sentinelOptions(place, sentinel) })
    : new Redis(urlOf(url, place), options)
}

/**
 * What stands in a URL is stronger with ioredis, even a password that is not there; here it is what stands beside it.
 */
function urlOf (url: string, { username, password }: RedisPlace): string {
  const whole = new URL(url)
  if (username !== null) whole.username = encodeURIComponent(username)
  if (password !== null) whole.password = encodeURIComponent(password)
  return whole.href
}

function optionsOf (place: RedisPlace): Options {
  const { username, password } = place
  return {
    Connector: ServerConnector,
    ...(place.lookup && { lookup: place.lookup }),
    lazyConnect: true,
    connectionName: 'varve',
    maxRetriesPerRequest: 0,
    commandTimeout: longestMs,
    connectTimeout: connectMs,
    autoResendUnfulfilledCommands: false,
    // The listener subscribes by itself, when it knows that it talks to Redis.
    autoResubscribe: false,
    // Servers and proxies that know no other are still common, and nothing here needs more.
    protocol: 2,
    ...(username !== null && { username }),
    ...(password !== null && { password }),
    ...(isSecure(place) && { tls: tlsOf(place) })
  }
}

function clusterOptions (place: RedisPlace): Omit<ClusterOptions, 'redisOptions'> & { redisOptions: Options } {
  const { lookup } = place
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    ...(lookup && {
      dnsLookup: (hostname: string, callback: Parameters<DNSLookupFunction>[1]) => {
        lookup(hostname, {}, (error, address, family) => {
          callback(error, String(address), family)
        })
      }
    }),
    // What hangs is left for a new connection, and while that is made nothing waits for it.
    redisOptions: { ...optionsOf(place), socketTimeout: silentMs },
    clusterRetryStrategy: again,
    slotsRefreshTimeout: connectMs,
    slotsRefreshInterval: 5000,
    // A read has no time to try again: what a dead node had is a miss until the cluster says who has it now.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    maxRedirections: 4
  }
}

function sentinelOptions (place: RedisPlace, { name, hosts, password }: RedisPlace['sentinel']): Options {
  return {
    Connector: MasterConnector,
    sentinels: [...hosts],
    name: name ?? '',
    sentinelRetryStrategy: again,
    sentinelCommandTimeout: connectMs,
    // Clients of a master that is cut off would go on writing to it.
    failoverDetector: true,
    ...(password !== null && { sentinelPassword: password }),
    ...(isSecure(place) && { enableTLSForSentinelMode: true, sentinelTLS: tlsOf(place) })
  }
}

function isSecure ({ url, tls }: RedisPlace): boolean {
  return tls || url?.startsWith('rediss:') === true
}

// To read all of Node's certificates takes so long that reads would feel it at every attempt to connect.
const contexts = new WeakMap<RedisPlace, SecureContext>()

function tlsOf (place: RedisPlace): ConnectionOptions {
  if (place.ca === undefined) return {}
  const secureContext = contexts.get(place) ?? createSecureContext({ ca: [...rootCertificates, place.ca] })
  contexts.set(place, secureContext)
  return { secureContext }
}

function again (times: number): number {
  return Math.min(100 * times, 1000)
}

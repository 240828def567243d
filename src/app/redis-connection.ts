import { readFileSync } from 'node:fs'
import { redisKeyPrefix } from '../cache/redis-tier.js'
import { type Config } from '../config/schema.js'
import { hostAndPort } from '../config/value-checks.js'
import { RedisCarrier } from '../peers/redis-carrier.js'
import { createClient, createSubscriberClient, type RedisConnectionOptions } from '../redis/create-client.js'
import { RedisLink, type RedisMetrics } from '../redis/link.js'
import { RedisSubscriber } from '../redis/subscriber.js'
import { DnsCache } from '../upstreams/dns.js'

type RedisConfig = Config['cache']['redis']

// Time limit for a DNS lookup of a Redis host.
const dnsTimeoutMs = 2000

/** Builds a connection to the configured Redis, without connecting. */
export function redisLinkOf (config: RedisConfig, metrics: RedisMetrics, now: () => number): RedisLink {
  const client = createClient(redisConnectionOptionsOf(config, now))
  const probeKey = `${redisKeyPrefix(config.keyPrefix)}probe`
  return new RedisLink(client, { timeoutMs: config.timeoutMs, probeKey, now, metrics })
}

/** Builds the carrier over a connection to Redis. */
export function redisCarrierOf (config: RedisConfig, link: RedisLink, now: () => number): RedisCarrier {
  const options = redisConnectionOptionsOf(config, now)
  return new RedisCarrier(
    link,
    redisKeyPrefix(config.keyPrefix),
    config.ttlSeconds,
    channel => new RedisSubscriber(attempt => createSubscriberClient(options, attempt), channel)
  )
}

/** Returns the connection options of the configured Redis. */
export function redisConnectionOptionsOf (
  { cluster, sentinel, caFile, ...rest }: RedisConfig,
  now: () => number
): RedisConnectionOptions {
  return {
    ...rest,
    cluster: cluster.map(hostAndPort),
    sentinel: { ...sentinel, hosts: sentinel.hosts.map(hostAndPort) },
    ca: caFile === null ? undefined : readFileSync(caFile, 'utf8'),
    lookup: new DnsCache({ now, timeoutMs: dnsTimeoutMs }).lookup
  }
}

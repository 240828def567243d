import { Cluster, type Redis } from 'ioredis'
import { type RedisClient } from './place.js'

/** The servers that are written to: each has keys of its own. */
export function mastersOf (client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client]
}

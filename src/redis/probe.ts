import { Cluster } from 'ioredis'
import { type RedisClient } from './connection-options.js'

/**
 * Resolves when Redis responds for a key. In a cluster one server is enough: an outage of another must not disable the
 * rest.
 */
export async function probeRedis (client: RedisClient, key: string): Promise<void> {
  if (!(client instanceof Cluster)) {
    await client.exists(key)
    return
  }
  await Promise.any(
    client.nodes('master').map(async server => {
      await server.exists(key).catch((error: unknown) => {
        // All servers but the key's owner respond MOVED, which proves that they respond.
        if (!(error instanceof Error) || !error.message.startsWith('MOVED')) throw error
      })
    })
  ).catch((error: AggregateError) => {
    throw error.errors[0] ?? error
  })
}

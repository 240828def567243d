import { Cluster } from 'ioredis'
import { type RedisClient } from './place.js'

/**
 * Whether Redis answers for a key, which need not exist; of a cluster, whether any of its servers does: one that is
 * away is no reason to forget the others.
 */
export async function probe (client: RedisClient, key: string): Promise<void> {
  if (!(client instanceof Cluster)) {
    await client.exists(key)
    return
  }
  await Promise.any(
    client.nodes('master').map(async server => {
      await server.exists(key).catch((error: unknown) => {
        // Only one of them has the key; the others name that one.
        if (!(error instanceof Error) || !error.message.startsWith('MOVED')) throw error
      })
    })
  ).catch((error: AggregateError) => {
    throw error.errors[0] ?? error
  })
}

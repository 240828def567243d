import { type RedisClient } from '../redis/create-client.js'
import { encodeWithChecksum } from './checksummed-json.js'
import { parsePurge } from './parse-replica-records.js'
import { type ExpiringKeys } from './expiring-keys.js'
import { type Purge } from './replica-messages.js'

/** Limits the log; a replica that may have missed more purges drops its whole memory tier. */
export const maxPurges = 256

/** Logged purges, newest first; `mayBeTrimmed` where older ones may have been trimmed. */
export interface PurgeLogContents {
  readonly purges: readonly Purge[]
  readonly mayBeTrimmed: boolean
}

/** The last purges of a chain id, in the order of Redis, for replicas that missed the message. */
export class PurgeLog {
  readonly #keys: ExpiringKeys

  constructor (keys: ExpiringKeys) {
    this.#keys = keys
  }

  /** Reads the log; rejects when Redis fails. */
  async read (chainId: number): Promise<PurgeLogContents> {
    const texts =
      await this.#keys.read(purgeLogKeyOf(chainId), async (client, key) => await client.lrange(key, 0, -1)) ?? []
    return {
      purges: texts.map(parsePurge).filter(purge => purge !== undefined),
      mayBeTrimmed: texts.length >= maxPurges
    }
  }

  async add (chainId: number, purge: Purge): Promise<void> {
    await this.#write(chainId, async (client, key) => await client.lpush(key, encodeWithChecksum(purge)))
  }

  /** Appends lost purges behind newer ones. */
  async restore (chainId: number, purges: readonly Purge[]): Promise<void> {
    await this.#write(chainId, async (client, key) => await client.rpush(key, ...purges.map(encodeWithChecksum)))
  }

  async #write (chainId: number, push: (client: RedisClient, key: string) => Promise<unknown>): Promise<void> {
    await this.#keys.write(purgeLogKeyOf(chainId), async (client, key) => {
      await Promise.all([push(client, key), client.ltrim(key, 0, maxPurges - 1)])
    })
  }
}

function purgeLogKeyOf (chainId: number): string {
  return `purged reads ${chainId}`
}

import { type RedisClient } from '../redis/place.js'
import { seal } from './seal.js'
import { purgeIn } from './shapes.js'
import { type SharedKeys } from './shared-keys.js'
import { type Purge } from '../chain/words.js'

/** More purges than this between two looks, and everything in memory is forgotten instead. */
export const maxPurges = 256

/** What the log says, the newest first, and whether older purges have made room. */
export interface LoggedPurges {
  readonly purges: readonly Purge[]
  readonly isFull: boolean
}

/** The last purges of a chain, in the order in which Redis took them, for replicas that did not get the message. */
export class PurgeLog {
  readonly #keys: SharedKeys

  constructor (keys: SharedKeys) {
    this.#keys = keys
  }

  /** Fails where Redis does not answer. */
  async read (chainId: number): Promise<LoggedPurges> {
    const texts = await this.#keys.read(nameOf(chainId), async (client, key) => await client.lrange(key, 0, -1)) ?? []
    return { purges: texts.map(purgeIn).filter(purge => purge !== undefined), isFull: texts.length >= maxPurges }
  }

  async add (chainId: number, purge: Purge): Promise<void> {
    await this.#write(chainId, async (client, key) => await client.lpush(key, seal(purge)))
  }

  /** Puts back what was lost, behind what has come since. */
  async restore (chainId: number, purges: readonly Purge[]): Promise<void> {
    await this.#write(chainId, async (client, key) => await client.rpush(key, ...purges.map(seal)))
  }

  async #write (chainId: number, push: (client: RedisClient, key: string) => Promise<unknown>): Promise<void> {
    await this.#keys.write(nameOf(chainId), async (client, key) => {
      await Promise.all([push(client, key), client.ltrim(key, 0, maxPurges - 1)])
    })
  }
}

function nameOf (chainId: number): string {
  return `purges ${chainId}`
}

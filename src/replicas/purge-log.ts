import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'
import { seal } from './seal.js'
import { purgeIn } from './shapes.js'
import { type Purge } from './words.js'

/** More purges than this between two looks, and everything in memory is forgotten instead. */
export const maxPurges = 256
const patientMs = 500

/** What the log says, the newest first, and whether older purges have made room. */
export interface LoggedPurges {
  readonly purges: readonly Purge[]
  readonly isFull: boolean
}

/** The last purges of a chain, in the order in which Redis took them, for replicas that did not get the message. */
export class PurgeLog {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Fails where Redis does not answer. */
  async read (chainId: number): Promise<LoggedPurges> {
    const key = this.#keyOf(chainId)
    const texts = await this.#link.ask('control', async client => await client.lrange(key, 0, -1).catch(async (error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
      await client.del(key)
      return []
    }), patientMs)
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
    const key = this.#keyOf(chainId)
    await this.#link.ask('control', async client => {
      await Promise.all([push(client, key), client.ltrim(key, 0, maxPurges - 1), client.expire(key, this.#ttlSeconds)])
    }, patientMs)
  }

  #keyOf (chainId: number): string {
    return `${this.#prefix}purges ${chainId}`
  }
}

import { type ToForget } from '../cache/shared-store.js'
import { type RedisLink } from '../redis/link.js'
import { seal, unseal } from './seal.js'

/** A purge, by a name of its own. */
export interface Purge extends ToForget {
  readonly id: string
}

// More purges than this between two looks, and everything in memory is forgotten instead.
const maxPurges = 256
const patientMs = 500

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

  /** The newest first; fails where Redis does not answer. */
  async read (chainId: number): Promise<Purge[]> {
    const key = this.#keyOf(chainId)
    const texts = await this.#link.ask('control', async client => await client.lrange(key, 0, -1).catch(async (error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
      await client.del(key)
      return []
    }), patientMs)
    return texts.map(unseal).filter(purge => purge !== undefined) as Purge[]
  }

  async add (chainId: number, purge: Purge): Promise<void> {
    const key = this.#keyOf(chainId)
    await this.#link.ask('control', async client => {
      await Promise.all([client.lpush(key, seal(purge)), client.ltrim(key, 0, maxPurges - 1), client.expire(key, this.#ttlSeconds)])
    }, patientMs)
  }

  /** Which of the purges are new to one who knows some, the oldest first; undefined where there may have been more than the log holds. */
  static newTo (known: ReadonlySet<string>, log: readonly Purge[]): Purge[] | undefined {
    const unknown = log.filter(({ id }) => !known.has(id))
    return unknown.length >= maxPurges ? undefined : unknown.reverse()
  }

  #keyOf (chainId: number): string {
    return `${this.#prefix}purges ${chainId}`
  }
}

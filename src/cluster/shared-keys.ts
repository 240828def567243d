import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'

// No read waits for any of this.
const patientMs = 500

/**
 * The keys by which replicas agree: under one prefix, each for so long after it was last written. Every look and change
 * fails where Redis does not answer.
 */
export class SharedKeys {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /**
   * What stands under a key; undefined where that is of another type: whatever took its place is no word of ours, and
   * gives way.
   */
  async read<T> (name: string, look: (client: RedisClient, key: string) => Promise<T>): Promise<T | undefined> {
    return await this.#ask(name, async (client, key) =>
      await look(client, key).catch(async (error: unknown) => {
        if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
        await client.del(key)
        return undefined
      }))
  }

  /** Changes what stands under a key, and lets it live on. */
  async write<T> (name: string, change: (client: RedisClient, key: string) => Promise<T>): Promise<T> {
    return await this.#ask(
      name,
      async (client, key) => (await Promise.all([change(client, key), client.expire(key, this.#ttlSeconds)]))[0]
    )
  }

  async #ask<T> (name: string, work: (client: RedisClient, key: string) => Promise<T>): Promise<T> {
    return await this.#link.ask('control', async client => await work(client, this.#prefix + name), patientMs)
  }
}

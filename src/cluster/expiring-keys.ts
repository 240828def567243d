import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/create-client.js'

// Client reads never wait for these commands.
const controlTimeoutMs = 500
// An absent key is compared as an empty text.
const replaceScript = `
  if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1`

/**
 * Shared keys of the replicas, under one prefix; each expires some time after its last write. Reads and writes reject
 * when Redis fails.
 */
export class ExpiringKeys {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Reads a key. A key of another type is not ours, so it is deleted and counts as absent. */
  async read<T> (name: string, readValue: (client: RedisClient, key: string) => Promise<T>): Promise<T | undefined> {
    return await this.#run(name, async (client, key) =>
      await readValue(client, key).catch(async (error: unknown) => {
        if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
        await client.del(key)
        return undefined
      }))
  }

  /** Writes a key and renews its expiry. */
  async write<T> (name: string, change: (client: RedisClient, key: string) => Promise<T>): Promise<T> {
    return await this.#run(
      name,
      async (client, key) => (await Promise.all([change(client, key), client.expire(key, this.#ttlSeconds)]))[0]
    )
  }

  /** Replaces the value of a key unless it has changed; returns false if it has. */
  async replace (name: string, before: string | null, after: string): Promise<boolean> {
    return await this.#run(
      name,
      async (client, key) => await client.eval(replaceScript, 1, key, before ?? '', after, this.#ttlSeconds)
    ) === 1
  }

  async #run<T> (name: string, work: (client: RedisClient, key: string) => Promise<T>): Promise<T> {
    return await this.#link.run('control', async client => await work(client, this.#prefix + name), controlTimeoutMs)
  }
}

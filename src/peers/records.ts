import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/create-client.js'

/** Texts that peers share, each under a name. Both methods reject while the place of the texts is unreachable. */
export interface Records {
  /** Reads a record; undefined if there is none. */
  read(name: string): Promise<string | undefined>
  /** Replaces a record unless it has changed, and renews its expiry; returns false if it has changed. */
  replace(name: string, before: string | undefined, after: string): Promise<boolean>
}

// Each failed attempt means that another peer wrote meanwhile.
const maxAttempts = 20

/** Changes a record by comparison, so that two writers never lose what the other wrote; undefined changes nothing. */
export async function changeRecord (
  records: Records,
  name: string,
  change: (text: string | undefined) => string | undefined
): Promise<void> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const before = await records.read(name)
    const after = change(before)
    if (after === undefined || await records.replace(name, before, after)) return
  }
  throw new Error('other processes write the record all the time')
}

// Client reads never wait for these commands.
const controlTimeoutMs = 500
// An absent key is compared as an empty text.
const replaceScript = `
  if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1`

/** Records in Redis, under one prefix; each expires some time after its last change. */
export class RedisRecords implements Records {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  async read (name: string): Promise<string | undefined> {
    return await this.#run(async client => await readText(client, this.#prefix + name)) ?? undefined
  }

  async replace (name: string, before: string | undefined, after: string): Promise<boolean> {
    const key = this.#prefix + name
    return await this.#run(
      async client => await client.eval(replaceScript, 1, key, before ?? '', after, this.#ttlSeconds)
    ) === 1
  }

  async #run<T> (command: (client: RedisClient) => Promise<T>): Promise<T> {
    return await this.#link.run('control', command, controlTimeoutMs)
  }
}

/** Reads a key. A key of another type is not ours, so it is deleted and counts as absent. */
async function readText (client: RedisClient, key: string): Promise<string | null> {
  return await client.get(key).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
    await client.del(key)
    return null
  })
}

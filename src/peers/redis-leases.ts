import { type RedisLink } from '../redis/link.js'
import { type LeasePlace } from './fetch-leases.js'
import { type Peers } from './peers.js'

/** Parts that leases in Redis need. */
export interface RedisLeasesOptions {
  readonly link: Pick<RedisLink, 'isSteady' | 'run'>
  readonly prefix: string
  readonly peers: Pick<Peers, 'publish'>
  readonly lastPurge: () => string
  /** False where no message of another host arrives, as for a user of Redis without a right to the channel. */
  readonly hearsHosts: () => boolean
  /** False while entries in Redis may not be read. */
  readonly isReadable: () => boolean
}

const invalidResult = new Error('Redis responds to a script with what it cannot return')

// A mark behind the token says that others wait; APPEND keeps the time to live.
const takeScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('STRLEN', KEYS[1]) == #ARGV[1] then redis.call('APPEND', KEYS[1], '+') end
return 0
`

const renewScript = `
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`

const endScript = `
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return #held - #ARGV[1]
`

/** Leases of hosts in Redis, which also has what their holders store. */
export class RedisLeases implements LeasePlace {
  readonly sendsEntries = false
  readonly #options: RedisLeasesOptions
  #scriptError: string | undefined

  constructor (options: RedisLeasesOptions) {
    this.#options = options
  }

  /** Last error of a script from a Redis that responds otherwise. */
  get scriptError (): string | undefined {
    return this.#scriptError
  }

  get isUsable (): boolean {
    const { link, isReadable, hearsHosts } = this.#options
    return link.isSteady && hearsHosts() && isReadable()
  }

  get lastPurge (): string {
    return this.#options.lastPurge()
  }

  async take (id: string, token: string, ms: number): Promise<boolean> {
    try {
      const result = await this.#run(takeScript, id, token, ms)
      // Rejects what the script cannot return.
      if (result !== 1 && result !== 0) throw invalidResult
      this.#scriptError = undefined
      return result === 1
    } catch (error) {
      // A script error lasts until an operator changes Redis.
      if (error instanceof Error && error.name === 'ReplyError') this.#scriptError = error.message
      throw error
    }
  }

  async renew (id: string, token: string, ms: number): Promise<void> {
    await this.#run(renewScript, id, token, ms)
  }

  async end (id: string, token: string, isStored: boolean): Promise<void> {
    if (await this.#run(endScript, id, token) === 1) {
      this.#options.peers.publish({ kind: 'fetched', lease: id, isStored })
    }
  }

  async #run (script: string, id: string, ...args: ReadonlyArray<string | number>): Promise<unknown> {
    const { link, prefix } = this.#options
    return await link.run('lease', async client => await client.eval(script, 1, `${prefix}lease:${id}`, ...args))
  }
}

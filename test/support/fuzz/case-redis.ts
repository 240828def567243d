import { randomUUID } from 'node:crypto'
import { seal } from '../../../src/cluster/seal.js'
import { type RedisProcess } from '../redis-process.js'
import { until } from '../until.js'
import { type RedisLocation } from './varve-under-test.js'

/** Starts a Redis, or hands out the one that was started. */
export type RedisProvider = () => Promise<RedisProcess>

const chainId = 4

/** The Redis of one case. */
export class CaseRedis implements RedisLocation {
  readonly #redis: RedisProcess
  readonly keyPrefix = `fuzz-${randomUUID()}`

  constructor (redis: RedisProcess) {
    this.#redis = redis
  }

  get url (): string {
    return this.#redis.url
  }

  /** Resolves when as many varves as there are have agreed on what they read and write. */
  async untilJoined (varves: number): Promise<void> {
    await until(async () => (await this.#signs()).length === varves, `${varves} varves have found each other`)
  }

  /** Resolves when each varve has looked at what the others say, and at what they said when they had. */
  async untilSynced (): Promise<void> {
    for (const nth of [1, 2]) for (const sign of await this.#signs()) await this.#looked(sign, nth)
  }

  /** Nothing of the case is left. */
  async clear (): Promise<void> {
    await this.#redis.client.flushall()
  }

  async #signs (): Promise<string[]> {
    return (await this.#redis.client.hkeys(this.#control)).filter(field => field.startsWith('r'))
  }

  // Who misses its own sign gives it again, at the end of a look; asked to look, it does so at once.
  async #looked (sign: string, nth: number): Promise<void> {
    const { client } = this.#redis
    await client.hdel(this.#control, sign)
    await client.publish(`${this.keyPrefix}:1:news`, seal({ kind: 'look', chainId }))
    await until(async () => await client.hexists(this.#control, sign) === 1, `a replica looks, ${nth}`)
  }

  get #control (): string {
    return `${this.keyPrefix}:1:control ${chainId}`
  }
}

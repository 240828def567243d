import { randomUUID } from 'node:crypto'
import { parseSpaces, encodeWithChecksum } from '../../../src/peers/parse-records.js'
import { type RedisProcess } from '../redis-server.js'
import { heartbeatsIn, removeHeartbeat } from '../replicas.js'
import { until } from '../until.js'

/** Starts a Redis, or returns the running one. */
export type RedisProvider = () => Promise<RedisProcess>

const chainId = 4

/** The Redis of one case. */
export class CaseRedis {
  readonly #redis: RedisProcess
  readonly keyPrefix = `fuzz-${randomUUID()}`

  constructor (redis: RedisProcess) {
    this.#redis = redis
  }

  get url (): string {
    return this.#redis.url
  }

  /** Resolves when all varves that run have shared their space; one that has stopped leaves its sign. */
  async untilJoined (varves: number): Promise<void> {
    if ((await this.#signs()).length > varves) await this.#redis.client.del(this.#heartbeats)
    await until(async () => (await this.#signs()).length === varves, `${varves} varves have found each other`)
  }

  /** Resolves when each varve knows blocks by which it can prove its chain. */
  async untilProvable (): Promise<void> {
    await until(async () => {
      const [newest] = parseSpaces(
        await this.#redis.client.get(`${this.keyPrefix}:1:spaces ${chainId}`) ?? undefined,
        chainId
      )
      return newest !== undefined && newest.anchors.length > 0
    }, 'the chain is recorded')
    await this.untilSynced()
  }

  /** Resolves when each varve has read the others' state twice, so that it has seen their latest. */
  async untilSynced (): Promise<void> {
    for (const nth of [1, 2]) for (const sign of await this.#signs()) await this.#looked(sign, nth)
  }

  /** Loses all data, all connections, or both. */
  async fail (how: 'flush' | 'cut' | 'restart'): Promise<void> {
    if (how === 'flush') await this.clear()
    else if (how === 'restart') await this.#redis.restart()
    else {
      for (const type of ['NORMAL', 'PUBSUB'] as const) {
        await this.#redis.client.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'YES')
      }
    }
  }

  /** Removes everything of the case. */
  async clear (): Promise<void> {
    await this.#redis.client.flushall()
  }

  async #signs (): Promise<string[]> {
    return (await heartbeatsIn(this.#redis, this.#heartbeats)).map(({ id }) => id)
  }

  // Deletes a replica's sign and requests a look: the replica restores the sign at the end of the look.
  async #looked (sign: string, nth: number): Promise<void> {
    await removeHeartbeat(this.#redis, sign, this.#heartbeats)
    await this.#redis.client.publish(`${this.keyPrefix}:1:news`, encodeWithChecksum({ kind: 'changed' }))
    await until(async () => (await this.#signs()).includes(sign), `a replica looks, ${nth}`)
  }

  get #heartbeats (): string {
    return `${this.keyPrefix}:1:peers ${chainId}`
  }
}

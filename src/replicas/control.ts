import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'
import { seal } from './seal.js'
import { generationIn, signIn, upstreamIn } from './shapes.js'
import { type KnownGeneration, type Sign, type UpstreamChain } from './words.js'

/** Everything in the control key of a chain. */
export interface ControlState {
  readonly generations: ReadonlyMap<number, KnownGeneration>
  readonly replicas: ReadonlyMap<string, Sign>
}

// Who runs on an older one than this is long gone.
const keptGenerations = 4
// No read waits for this.
const patientMs = 500

/**
 * The control key of each chain: a hash with a field for each generation and each replica, so that none overwrites what is another's.
 * What is lost or damaged is published again from memory by whoever still knows it; it never means that anything changed.
 */
export class Control {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  /** Fails where Redis does not answer. */
  async read (chainId: number): Promise<ControlState> {
    const key = this.#keyOf(chainId)
    const fields = await this.#ask(async client => await client.hgetall(key).catch(async (error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
      // Whatever took its place is no word of ours.
      await client.del(key)
      return {}
    }))
    const generations = new Map<number, KnownGeneration>()
    const replicas = new Map<string, Sign>()
    const damaged: string[] = []
    for (const [field, text] of Object.entries(fields)) {
      const generation = /^g([1-9][0-9]{0,14})$/.exec(field)?.[1]
      const known = generation === undefined ? undefined : generationIn(text)
      const sign = field.startsWith('r') ? signIn(text) : undefined
      if (known !== undefined) generations.set(Number(generation), known)
      else if (sign !== undefined) replicas.set(field.slice(1), sign)
      else damaged.push(field)
    }
    if (damaged.length > 0) await this.#ask(async client => await client.hdel(key, ...damaged)).catch(() => {})
    return { generations, replicas }
  }

  /** Publishes what is known of a generation, and forgets those that are long gone. */
  async publish (chainId: number, generation: number, known: KnownGeneration, others: Iterable<number>): Promise<void> {
    const gone = [...others].filter(other => other <= generation - keptGenerations).map(other => `g${other}`)
    await this.#set(chainId, { [`g${generation}`]: seal(known) }, gone)
  }

  /** Takes the number of a generation for a chain; whether nobody had it. */
  async claim (chainId: number, generation: number, known: KnownGeneration): Promise<boolean> {
    const key = this.#keyOf(chainId)
    return await this.#ask(async client => (await Promise.all([client.hsetnx(key, `g${generation}`, seal(known)), client.expire(key, this.#ttlSeconds)]))[0] === 1)
  }

  /** Gives a sign of life, and forgets the replicas that have given none for long. */
  async sign (chainId: number, replica: string, sign: Sign, gone: readonly string[]): Promise<void> {
    await this.#set(chainId, { [`r${replica}`]: seal(sign) }, gone.map(name => `r${name}`))
  }

  /** Which chain and generation an upstream was last known to have. */
  async upstream (digest: string): Promise<UpstreamChain | undefined> {
    return upstreamIn(await this.#ask(async client => await client.get(this.#upstreamKey(digest))))
  }

  async rememberUpstream (digest: string, chain: UpstreamChain): Promise<void> {
    await this.#ask(async client => await client.set(this.#upstreamKey(digest), seal(chain), 'EX', this.#ttlSeconds))
  }

  async #set (chainId: number, fields: Readonly<Record<string, string>>, gone: readonly string[]): Promise<void> {
    const key = this.#keyOf(chainId)
    await this.#ask(async client => {
      await Promise.all([client.hset(key, fields), ...(gone.length > 0 ? [client.hdel(key, ...gone)] : []), client.expire(key, this.#ttlSeconds)])
    })
  }

  async #ask<T> (work: (client: RedisClient) => Promise<T>): Promise<T> {
    return await this.#link.ask('control', work, patientMs)
  }

  #keyOf (chainId: number): string {
    return `${this.#prefix}control ${chainId}`
  }

  #upstreamKey (digest: string): string {
    return `${this.#prefix}upstream ${digest}`
  }
}

import { createHash } from 'node:crypto'
import { seal } from './seal.js'
import { generationIn, signIn, upstreamIn } from './shapes.js'
import { type SharedKeys } from './shared-keys.js'
import { type KnownGeneration, type Sign, type UpstreamChain } from '../chain/words.js'

/** Everything in the control key of a chain. */
export interface ControlState {
  readonly generations: ReadonlyMap<number, KnownGeneration>
  readonly replicas: ReadonlyMap<string, Sign>
}

/** A node of this process, as it is remembered. */
export interface Upstream {
  /** May hold a secret, so what stands in Redis is its digest. */
  readonly url: string
  /** Whether it was seen to be of the chain that is keyed by. */
  readonly isOfChain: () => boolean
}

// Who runs on an older one than this is long gone.
const keptGenerations = 4

/**
 * The control key of each chain: a hash with a field for each generation and each replica, so that none overwrites what
 * is another's. What is lost or damaged is published again from memory by whoever still knows it; it never means that
 * anything changed. Beside it, for when nobody is left who knows, stands what each upstream was last known to have.
 */
export class Control {
  readonly #keys: SharedKeys
  readonly #upstreams: () => readonly Upstream[]

  constructor (keys: SharedKeys, upstreams: () => readonly Upstream[]) {
    this.#keys = keys
    this.#upstreams = upstreams
  }

  /** Whether anything is known of a chain. */
  async has (chainId: number): Promise<boolean> {
    return await this.#keys.read(nameOf(chainId), async (client, key) => await client.exists(key)) === 1
  }

  /** Fails where Redis does not answer. */
  async read (chainId: number): Promise<ControlState> {
    const fields = await this.#keys.read(nameOf(chainId), async (client, key) => await client.hgetall(key)) ?? {}
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
    if (damaged.length > 0) {
      await this.#keys.write(nameOf(chainId), async (client, key) => await client.hdel(key, ...damaged)).catch(() => {})
    }
    return { generations, replicas }
  }

  /** Publishes what is known of a generation, and forgets those that are long gone. */
  async publish (chainId: number, generation: number, known: KnownGeneration, others: Iterable<number>): Promise<void> {
    const gone = [...others].filter(other => other <= generation - keptGenerations).map(other => `g${other}`)
    await this.#set(chainId, { [`g${generation}`]: seal(known) }, gone)
  }

  /** Takes the number of a generation for a chain; whether nobody had it. */
  async claim (chainId: number, generation: number, known: KnownGeneration): Promise<boolean> {
    return await this.#keys.write(
      nameOf(chainId),
      async (client, key) => await client.hsetnx(key, `g${generation}`, seal(known))
    ) === 1
  }

  /** Gives a sign of life, and forgets the replicas that have given none for long. */
  async sign (chainId: number, replica: string, sign: Sign, gone: readonly string[]): Promise<void> {
    await this.#set(chainId, { [`r${replica}`]: seal(sign) }, gone.map(name => `r${name}`))
  }

  /** Which chain and generation this process's upstreams were last known to have, of those that are remembered. */
  async upstreams (): Promise<UpstreamChain[]> {
    const texts = await Promise.all(
      this.#upstreams().map(async ({ url }) =>
        await this.#keys.read(remembranceOf(url), async (client, key) => await client.get(key))
      )
    )
    return texts.map(upstreamIn).filter(upstream => upstream !== undefined)
  }

  /** Remembers the chain of those that were seen to be of it; what others were last known to have stays as it is. */
  async rememberUpstreams (chain: UpstreamChain): Promise<void> {
    const known = this.#upstreams().filter(({ isOfChain }) => isOfChain())
    await Promise.all(known.map(async ({ url }) => {
      await this.#keys.write(remembranceOf(url), async (client, key) => await client.set(key, seal(chain)))
    }))
  }

  async #set (chainId: number, fields: Readonly<Record<string, string>>, gone: readonly string[]): Promise<void> {
    await this.#keys.write(nameOf(chainId), async (client, key) => {
      await Promise.all([client.hset(key, fields), ...(gone.length > 0 ? [client.hdel(key, ...gone)] : [])])
    })
  }
}

function nameOf (chainId: number): string {
  return `control ${chainId}`
}

function remembranceOf (url: string): string {
  return `upstream ${createHash('sha256').update(url.replace(/\/+$/, '')).digest('base64url').slice(0, 22)}`
}

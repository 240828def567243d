import { createHash } from 'node:crypto'
import { encodeWithChecksum } from './checksummed-json.js'
import { parseGeneration, parseHeartbeat, parseUpstreamChain } from './parse-replica-records.js'
import { type ExpiringKeys } from './expiring-keys.js'
import { type Heartbeat } from './replica-messages.js'
import { type GenerationRegistry, type RegisteredGenerations } from '../chain/generation-registry.js'
import { type GenerationRecord, type UpstreamChain } from '../chain/generation-record.js'

/** Contents of a chain's control record. */
export interface RedisRegistryState extends RegisteredGenerations {
  readonly replicas: ReadonlyMap<string, Heartbeat>
}

/** An upstream of this process whose chain is remembered in Redis. */
export interface RememberedUpstream {
  /** May hold a secret, so its Redis key carries a digest. */
  readonly url: string
  /** Returns true if the upstream was verified to be on our chain. */
  readonly isOnChain: () => boolean
}

// No replica still uses a generation this far below the newest.
const maxGenerations = 4

/**
 * The control record of each chain: one hash field per generation and replica, so replicas never overwrite each
 * other. Replicas republish lost fields from memory.
 */
export class RedisGenerationRegistry implements GenerationRegistry {
  readonly #keys: ExpiringKeys
  readonly #upstreams: () => readonly RememberedUpstream[]

  constructor (keys: ExpiringKeys, upstreams: () => readonly RememberedUpstream[]) {
    this.#keys = keys
    this.#upstreams = upstreams
  }

  /** Reads the control record, and removes damaged fields; rejects when Redis fails. */
  async read (chainId: number): Promise<RedisRegistryState> {
    const fields = await this.#keys.read(controlKeyOf(chainId), async (client, key) => await client.hgetall(key)) ?? {}
    const generations = new Map<number, GenerationRecord>()
    const replicas = new Map<string, Heartbeat>()
    const damaged: string[] = []
    for (const [field, text] of Object.entries(fields)) {
      const generation = /^g([1-9][0-9]{0,14})$/.exec(field)?.[1]
      const known = generation === undefined ? undefined : parseGeneration(text)
      const heartbeat = field.startsWith('r') ? parseHeartbeat(text) : undefined
      if (known !== undefined) generations.set(Number(generation), known)
      else if (heartbeat !== undefined) replicas.set(field.slice(1), heartbeat)
      else damaged.push(field)
    }
    if (damaged.length > 0) {
      await this.#keys.write(controlKeyOf(chainId), async (client, key) => await client.hdel(key, ...damaged)).catch(
        () => {}
      )
    }
    return { generations, replicas }
  }

  /** Publishes a generation, and removes outdated ones. */
  async publish (
    chainId: number,
    generation: number,
    known: GenerationRecord,
    others: Iterable<number>
  ): Promise<void> {
    const outdated = [...others].filter(other => other <= generation - maxGenerations).map(other => `g${other}`)
    await this.#set(chainId, { [`g${generation}`]: encodeWithChecksum(known) }, outdated)
  }

  /** Claims the number of a generation; returns false if another replica has it. */
  async claim (chainId: number, generation: number, known: GenerationRecord): Promise<boolean> {
    return await this.#keys.write(
      controlKeyOf(chainId),
      async (client, key) => await client.hsetnx(key, `g${generation}`, encodeWithChecksum(known))
    ) === 1
  }

  /** Publishes this replica's heartbeat, and removes replicas that are gone. */
  async publishHeartbeat (
    chainId: number,
    replica: string,
    heartbeat: Heartbeat,
    goneReplicas: readonly string[]
  ): Promise<void> {
    await this.#set(chainId, { [`r${replica}`]: encodeWithChecksum(heartbeat) }, goneReplicas.map(name => `r${name}`))
  }

  /** Reads the chain and generation that this process's upstreams last had. */
  async rememberedUpstreams (): Promise<UpstreamChain[]> {
    const texts = await Promise.all(
      this.#upstreams().map(async ({ url }) =>
        await this.#keys.read(rememberedUpstreamKeyOf(url), async (client, key) => await client.get(key))
      )
    )
    return texts.map(parseUpstreamChain).filter(upstream => upstream !== undefined)
  }

  /** Remembers the chain of verified upstreams; records of other upstreams stay. */
  async rememberUpstreams (chain: UpstreamChain): Promise<void> {
    const known = this.#upstreams().filter(({ isOnChain }) => isOnChain())
    await Promise.all(known.map(async ({ url }) => {
      await this.#keys.write(
        rememberedUpstreamKeyOf(url),
        async (client, key) => await client.set(key, encodeWithChecksum(chain))
      )
    }))
  }

  async #set (
    chainId: number,
    fields: Readonly<Record<string, string>>,
    removedFields: readonly string[]
  ): Promise<void> {
    await this.#keys.write(controlKeyOf(chainId), async (client, key) => {
      await Promise.all([
        client.hset(key, fields),
        ...(removedFields.length > 0 ? [client.hdel(key, ...removedFields)] : [])
      ])
    })
  }
}

function controlKeyOf (chainId: number): string {
  return `control ${chainId}`
}

function rememberedUpstreamKeyOf (url: string): string {
  return `upstream ${createHash('sha256').update(url.replace(/\/+$/, '')).digest('base64url').slice(0, 22)}`
}

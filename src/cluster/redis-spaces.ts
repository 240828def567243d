import { createHash } from 'node:crypto'
import { type SpacePlace, withSpace } from '../chain/space-places.js'
import { type SpaceRecord } from '../chain/space.js'
import { encodeWithChecksum } from './checksummed-json.js'
import { type ExpiringKeys } from './expiring-keys.js'
import { parseHeartbeat, parseLastSpace, parseSpaces } from './parse-replica-records.js'
import { type Heartbeat, type LastSpace } from './replica-messages.js'

/** An upstream of this process whose space is remembered in Redis. */
export interface RememberedUpstream {
  /** May hold a secret, so its Redis key carries a digest. */
  readonly url: string
  /** Returns true if the upstream was verified to be on our chain. */
  readonly isOnChain: () => boolean
}

// Each failed attempt means that another replica wrote meanwhile.
const maxAttempts = 5

/** Spaces of each chain id in Redis: one record that replicas replace by comparison, so none is lost. */
export class RedisSpaces implements SpacePlace {
  readonly #keys: ExpiringKeys
  readonly #upstreams: () => readonly RememberedUpstream[]
  #error: string | undefined

  constructor (keys: ExpiringKeys, upstreams: () => readonly RememberedUpstream[]) {
    this.#keys = keys
    this.#upstreams = upstreams
  }

  /** Reason why Redis has rejected the last change. */
  get error (): string | undefined {
    return this.#error
  }

  async read (chainId: number): Promise<readonly SpaceRecord[]> {
    return parseSpaces(await this.#textOf(chainId), chainId)
  }

  async put (record: SpaceRecord, replacesAll = false): Promise<readonly SpaceRecord[]> {
    try {
      const list = await this.#replace(record, replacesAll)
      this.#error = undefined
      return list
    } catch (error) {
      this.#error = (error as Error).message
      throw error
    }
  }

  async #replace (record: SpaceRecord, replacesAll: boolean): Promise<readonly SpaceRecord[]> {
    const { chainId } = record
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const before = await this.#textOf(chainId)
      const list = parseSpaces(before, chainId)
      const next = withSpace(list, record, replacesAll)
      if (next === list || await this.#keys.replace(spacesKeyOf(chainId), before, encodeWithChecksum(next))) return next
    }
    throw new Error('other replicas write the spaces all the time')
  }

  async remembered (): Promise<readonly LastSpace[]> {
    const texts = await Promise.all(
      this.#upstreams().map(async ({ url }) =>
        await this.#keys.read(lastSpaceKeyOf(url), async (client, key) => await client.get(key))
      )
    )
    return texts.map(parseLastSpace).filter(space => space !== undefined)
  }

  /** Remembers the space of verified upstreams; records of other upstreams stay. */
  async remember ({ chainId, name }: LastSpace): Promise<void> {
    const known = this.#upstreams().filter(({ isOnChain }) => isOnChain())
    await Promise.all(known.map(async ({ url }) => {
      await this.#keys.write(
        lastSpaceKeyOf(url),
        async (client, key) => await client.set(key, encodeWithChecksum({ chainId, name }))
      )
    }))
  }

  /** Reads the heartbeats of the replicas of a chain id. */
  async replicas (chainId: number): Promise<ReadonlyMap<string, Heartbeat>> {
    const fields = await this.#keys.read(replicasKeyOf(chainId), async (client, key) => await client.hgetall(key)) ?? {}
    return new Map(
      Object.entries(fields).flatMap(([name, text]) => {
        const heartbeat = parseHeartbeat(text)
        return heartbeat === undefined ? [] : [[name, heartbeat] as const]
      })
    )
  }

  /** Publishes this replica's heartbeat, and removes replicas that are gone. */
  async publishHeartbeat (
    chainId: number,
    replica: string,
    heartbeat: Heartbeat,
    goneReplicas: readonly string[]
  ): Promise<void> {
    await this.#keys.write(replicasKeyOf(chainId), async (client, key) => {
      await Promise.all([
        client.hset(key, { [replica]: encodeWithChecksum(heartbeat) }),
        ...(goneReplicas.length > 0 ? [client.hdel(key, ...goneReplicas)] : [])
      ])
    })
  }

  async #textOf (chainId: number): Promise<string | null> {
    return await this.#keys.read(spacesKeyOf(chainId), async (client, key) => await client.get(key)) ?? null
  }
}

function spacesKeyOf (chainId: number): string {
  return `spaces ${chainId}`
}

function replicasKeyOf (chainId: number): string {
  return `replicas ${chainId}`
}

function lastSpaceKeyOf (url: string): string {
  const digest = createHash('sha256').update(url.replace(/\/+$/, '')).digest('base64url').slice(0, 22)
  return `last space ${digest}`
}

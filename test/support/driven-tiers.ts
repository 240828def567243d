import { readFile, writeFile } from 'node:fs/promises'
import { type Test } from 'tap'
import { makeEntry } from '../../src/cache/entry.js'
import { type Invalidation } from '../../src/cache/invalidation.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector, type TierName } from '../../src/cache/tier.js'
import { openDiskTier } from './disk-tier.js'
import { startRedis } from './redis-server.js'
import { openRedisTier } from './redis-tier.js'
import { testFolder } from './test-folder.js'

/** A tier, as every tier of the suite is driven. */
export interface DrivenTier {
  readonly name: TierName
  /** Starts to store an entry. */
  put(stored: StoredEntry, ttlMs?: number): void
  /** Resolves when what was put can be found. */
  untilStored(): Promise<void>
  get(selector: EntrySelector): Promise<Pick<StoredEntry, 'key' | 'status' | 'body' | 'validity'> | undefined>
  invalidate(what: Invalidation): Promise<boolean>
  close(): Promise<void>
  /** Changes a stored value where it lies; undefined if nothing but this process can reach it. */
  readonly damage: ((key: string) => Promise<void>) | undefined
  /** Opens the same tier again as the next process does. */
  reopen(): Promise<DrivenTier>
}

/** Opens an empty tier with room for a few hundred kilobytes. */
export type OpenTier = (t: Test) => Promise<DrivenTier>

const roomBytes = 400_000

/** Opens the memory tier. */
export async function openMemory (): Promise<DrivenTier> {
  const now = (): number => performance.now()
  const tier = new MemoryTier(roomBytes, { wrote: () => {}, evicted: () => {} }, now)
  return {
    name: tier.name,
    put: (stored, ttlMs) => {
      const expiresAtMs = ttlMs === undefined ? undefined : now() + ttlMs
      tier.put(makeEntry({ ...stored, cursorAndGasHeaders: [], expiresAtMs }))
    },
    untilStored: async () => {},
    get: async selector => tier.get(selector),
    invalidate: async what => tier.invalidate(what),
    close: async () => {
      tier.close()
    },
    damage: undefined,
    reopen: openMemory
  }
}

/** Opens the Redis tier on a server of its own. */
export async function openRedis (t: Test): Promise<DrivenTier> {
  const { client, url } = await startRedis(t)
  const [, usedBytes] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? []
  await client.config('SET', 'maxmemory', String(Number(usedBytes) + 4 * roomBytes))
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const open = async (): Promise<DrivenTier> => {
    const tier = await openRedisTier(t, url)
    return {
      name: tier.name,
      put: (stored, ttlMs) => {
        tier.put({ stored, ttlMs })
      },
      untilStored: async () => {
        await tier.waitUntilIdle()
      },
      get: async selector => (await tier.get(selector))?.stored,
      invalidate: async what => await tier.invalidate(what),
      close: async () => {
        await tier.close()
      },
      damage: async key => {
        const value = await client.getBuffer(`varve:1:${key}`) ?? Buffer.alloc(0)
        value[value.length - 1] = (value.at(-1) ?? 0) ^ 1
        await client.set(`varve:1:${key}`, value)
      },
      reopen: open
    }
  }
  return await open()
}

/** Opens the disk tier in a folder of its own. */
export async function openDisk (t: Test): Promise<DrivenTier> {
  const path = testFolder(t)
  const open = async (): Promise<DrivenTier> => {
    const { tier, files, evictor, space = '' } = await openDiskTier(t, path, roomBytes)
    return {
      name: tier.name,
      put: (stored, ttlMs) => {
        tier.put({ stored, ttlMs })
      },
      untilStored: async () => {
        await tier.waitUntilIdle()
        await evictor.waitUntilIdle()
      },
      get: async selector => (await tier.get(selector))?.stored,
      invalidate: async what => await tier.invalidate(what),
      close: async () => {
        await tier.close()
      },
      damage: async key => {
        const file = files.pathOf(space, key)
        const bytes = await readFile(file)
        bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
        await writeFile(file, bytes)
      },
      reopen: open
    }
  }
  return await open()
}

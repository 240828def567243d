import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test } from 'tap'
import { makeEntry } from '../../src/cache/entry.js'
import { type Invalidation } from '../../src/cache/invalidation.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector, type TierName } from '../../src/cache/tier.js'
import { getInTime, openDiskTier } from './disk-tier.js'
import { startRedis } from './redis-server.js'
import { openRedisTier } from './redis-tier.js'
import { testFolder } from './test-folder.js'

/** A stored value or record of an index where it lies, which others than this process can reach. */
export interface Place {
  readonly name: string
  readonly isIndex: boolean
  read(): Promise<Buffer>
  write(bytes: Buffer): Promise<void>
  remove(): Promise<void>
}

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
  /** Lists what lies outside the process; nothing in memory. */
  places(): Promise<Place[]>
  /** Counts what was found damaged. */
  corrupt(): number
  /** Opens the same tier again as the next process does. */
  reopen(): Promise<DrivenTier>
}

/** Opens an empty tier. */
export type OpenTier = (t: Test, roomBytes: number) => Promise<DrivenTier>

/** Opens the memory tier. */
export async function openMemory (t: Test, roomBytes: number): Promise<DrivenTier> {
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
    places: async () => [],
    corrupt: () => 0,
    reopen: async () => await openMemory(t, roomBytes)
  }
}

/** Opens the Redis tier on a server of its own. */
export async function openRedis (t: Test, roomBytes: number): Promise<DrivenTier> {
  const { client, url } = await startRedis(t)
  const [, usedBytes] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? []
  await client.config('SET', 'maxmemory', String(Number(usedBytes) + 4 * roomBytes))
  await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
  const remove = async (name: string): Promise<void> => {
    await client.del(name)
  }
  const valueAt = (name: string): Place => ({
    name,
    isIndex: false,
    read: async () => await client.getBuffer(name) ?? Buffer.alloc(0),
    write: async bytes => {
      await client.set(name, bytes)
    },
    remove: async () => {
      await remove(name)
    }
  })
  // A record of an index stands for all of them.
  const recordAt = (name: string): Place => ({
    name,
    isIndex: true,
    read: async () => (await client.zrangeBuffer(name, '0', '0'))[0] ?? Buffer.alloc(0),
    write: async bytes => {
      await client.zremrangebyrank(name, 0, 0)
      await client.zadd(name, 0, bytes)
    },
    remove: async () => {
      await remove(name)
    }
  })
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
      places: async () =>
        await Promise.all(
          (await client.keys('*')).sort().map(async name =>
            await client.type(name) === 'zset' ? recordAt(name) : valueAt(name)
          )
        ),
      corrupt: () => tier.counts.corrupt,
      reopen: open
    }
  }
  return await open()
}

/** Opens the disk tier in a folder of its own. */
export async function openDisk (t: Test, roomBytes: number): Promise<DrivenTier> {
  const path = testFolder(t)
  const fileAt = (name: string): Place => ({
    name,
    isIndex: name.endsWith('.index'),
    read: async () => await readFile(name),
    write: async bytes => {
      await writeFile(name, bytes)
    },
    remove: async () => {
      await rm(name)
    }
  })
  const open = async (): Promise<DrivenTier> => {
    const disk = await openDiskTier(t, path, roomBytes)
    const { tier, evictor, counts } = disk
    return {
      name: tier.name,
      put: (stored, ttlMs) => {
        tier.put({ stored, ttlMs })
      },
      untilStored: async () => {
        await tier.waitUntilIdle()
        await evictor.waitUntilIdle()
      },
      get: async selector => (await getInTime(disk, selector))?.stored,
      invalidate: async what => await tier.invalidate(what),
      close: async () => {
        await tier.close()
      },
      places: async () =>
        (await readdir(join(path, 'entries'), { recursive: true, withFileTypes: true })).filter(each => each.isFile())
          .map(({ parentPath, name }) => fileAt(join(parentPath, name))),
      corrupt: () => counts.corrupt,
      reopen: open
    }
  }
  return await open()
}

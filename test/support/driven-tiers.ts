import { open as openFile, readFile } from 'node:fs/promises'
import { type Test } from 'tap'
import { makeEntry } from '../../src/cache/entry.js'
import { type Invalidation } from '../../src/cache/invalidation.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type FoundEntry, type LowerStore, type TierName } from '../../src/cache/tier.js'
import { getInTime, openDiskTier, recordsIn, segmentsIn } from './disk-tier.js'
import { startRedis } from './redis-server.js'
import { openRedisTier, space } from './redis-tier.js'
import { testFolder } from './test-folder.js'

/** A stored value or record of an index where it lies, which others than this process can reach. */
export interface Place {
  readonly name: string
  readonly isIndex: boolean
  read(): Promise<Buffer>
  write(bytes: Buffer): Promise<void>
  remove(): Promise<void>
}

/** Where an entry is looked up: by its value key or text key, or by a version inside its interval. */
export type Selector =
  | { readonly by: 'key', readonly value: string, readonly text: string }
  | { readonly by: 'version', readonly family: string, readonly version: bigint }

type Found = Pick<StoredEntry, 'key' | 'status' | 'body' | 'validity'>

/** A tier, as every tier of the suite is driven. */
export interface DrivenTier {
  readonly name: TierName
  /** Starts to store an entry. */
  put(stored: StoredEntry, ttlMs?: number): void
  /** Resolves when what was put can be found. */
  untilStored(): Promise<void>
  get(selector: Selector): Promise<Found | undefined>
  drop(what: Invalidation): Promise<boolean>
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
      tier.put(space, makeEntry({ ...stored, cursorAndGasHeaders: [], expiresAtMs }))
    },
    untilStored: async () => {},
    get: async selector =>
      selector.by === 'version'
        ? tier.covering(space, selector.family, selector.version)
        : tier.get(space, selector.value) ?? tier.get(space, selector.text),
    drop: async what => tier.drop(space, what),
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
        tier.put(space, { stored, ttlMs })
      },
      untilStored: async () => {
        await tier.waitUntilIdle()
      },
      get: async selector => (await lookUp(tier, selector))?.stored,
      drop: async what => await tier.drop(space, what),
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

/** Looks up in a lower tier as a read does. */
async function lookUp (tier: LowerStore, selector: Selector): Promise<FoundEntry | undefined> {
  return selector.by === 'version'
    ? await tier.covering(space, selector.family, selector.version)
    : await tier.get(space, selector.value) ?? await tier.get(space, selector.text)
}

/** Opens the disk tier in a folder of its own. */
export async function openDisk (t: Test, roomBytes: number): Promise<DrivenTier> {
  const path = testFolder(t)
  // A record keeps its place, whatever is written there.
  const recordAt = (file: string, offset: number, length: number): Place => {
    const write = async (bytes: Buffer): Promise<void> => {
      const opened = await openFile(file, 'r+')
      const record = Buffer.alloc(length)
      bytes.copy(record)
      await opened.write(record, 0, length, offset)
      await opened.close()
    }
    return {
      name: `${file} ${offset}`,
      isIndex: false,
      read: async () => (await readFile(file)).subarray(offset, offset + length),
      write,
      remove: async () => {
        await write(Buffer.alloc(0))
      }
    }
  }
  const open = async (): Promise<DrivenTier> => {
    const disk = await openDiskTier(t, path, roomBytes)
    const { tier, counts } = disk
    return {
      name: 'disk',
      put: (stored, ttlMs) => {
        tier.put(space, { stored, ttlMs })
      },
      untilStored: async () => {
        await tier.waitUntilIdle()
      },
      get: async selector => (await getInTime(disk, async () => await lookUp(tier, selector)))?.stored,
      drop: async what => await tier.drop(space, what),
      close: async () => {
        await tier.close()
      },
      places: async () =>
        (await Promise.all(
          segmentsIn(path).map(async file =>
            recordsIn(await readFile(file)).map(({ offset, length }) => recordAt(file, offset, length))
          )
        )).flat(),
      corrupt: () => counts.corrupt,
      reopen: open
    }
  }
  return await open()
}

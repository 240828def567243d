import { cpSync } from 'node:fs'
import { type Test } from 'tap'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { getInTime, openDiskTier, type TestDiskTier } from './disk-tier.js'
import { space, storedEntryOf } from './redis-tier.js'
import { testFolder } from './test-folder.js'

/** Room of a tier that evicts nothing. */
export const roomBytes = 50_000_000

/** A disk tier in a folder. */
export interface Opened extends TestDiskTier {
  readonly path: string
}

/** Opens a disk tier in a folder of its own, with some entries. */
export async function opened (t: Test, ...entries: StoredEntry[]): Promise<Opened> {
  return await openedAt(t, testFolder(t), roomBytes, ...entries)
}

/** Opens a disk tier in a folder, with some entries. */
export async function openedAt (
  t: Test,
  path: string,
  maxBytes = roomBytes,
  ...entries: StoredEntry[]
): Promise<Opened> {
  const disk = await openDiskTier(t, path, maxBytes)
  await put(disk, ...entries)
  return Object.assign(disk, { path })
}

/** Puts entries, and waits until they are on the disk. */
export async function put (disk: TestDiskTier, ...entries: StoredEntry[]): Promise<void> {
  for (const stored of entries) disk.tier.put(space, { stored, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
}

/** Returns an entry whose key begins with the name of the space. */
export const entryOf: typeof storedEntryOf = (key, ...rest) => storedEntryOf(`${space.name} ${key}`, ...rest)
/** Returns the body under a key. */
export const found = async (disk: TestDiskTier, key: string): Promise<string | undefined> =>
  (await getInTime(disk, async () => await disk.tier.get(space, `${space.name} ${key}`)))?.stored.body.toString()
/** Family of blocks. */
export const family = `${space.name} json blocks`
/** Returns a block of some versions. */
export const blockOf = (height: number, first: bigint, last = first): StoredEntry =>
  storedEntryOf(`${family} ${height}`, `${height}`, { validity: { family, first, last } })
/** Returns the body of the block that contains a version. */
export const blockAt = async (disk: TestDiskTier, version: bigint): Promise<string | undefined> =>
  (await getInTime(disk, async () => await disk.tier.covering(space, family, version)))?.stored.body.toString()
/** Purges a key. */
export const purge = async ({ tier }: TestDiskTier, key: string): Promise<boolean> =>
  await tier.drop(space, { keys: [`${space.name} ${key}`], intervals: [] })

/** Copies a folder as a process would find it that starts after a crash at this moment. */
export function crashed (t: Test, path: string): string {
  const copy = testFolder(t)
  cpSync(path, copy, { recursive: true })
  return copy
}

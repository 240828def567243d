import { type Dirent, type Stats } from 'node:fs'
import { lstat, readdir, rmdir, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { blockBytes, type DiskSize, entryFileName, entryFolderNames, indexSuffix, isAbsent } from './disk-files.js'

/** Room on the disk that the tier may use. */
export interface DiskRoom {
  readonly bytes: number
  readonly entries: number
  readonly maxBytes: number
  /** True if other processes use the room too. */
  readonly isShared: boolean
  /** Returns false if the bytes would exceed the room. */
  has(bytes: number): boolean
  add(bytes: number, entries: number): void
}

/** Settings and callbacks of the evictor. */
export interface DiskEvictorOptions {
  /** Folder of the tier. */
  readonly path: string
  readonly maxBytes: number
  /** Size when the last process ended; undefined if it is unknown, so nothing is written before it is. */
  readonly knownSize: DiskSize | undefined
  readonly evicted: () => void
  readonly onError: () => void
}

// Eviction begins at one share of the room and ends at the other; above the last, writes are dropped.
const evictFrom = 0.95
const evictTo = 0.9
const dropFrom = 1.05
// Files to compare at once. Names are digests, so that any folder has old and new ones.
const sampleSize = 256
// The least recently used share of a sample leaves.
const evictedShare = 1 / 4

interface SizedFile {
  readonly path: string
  readonly bytes: number
  readonly isIndex: boolean
  readonly usedAtMs: number
}

/** Keeps the files of the disk tier within their room: counts them at the start, and evicts the least recently used. */
export class DiskEvictor implements DiskRoom {
  readonly isShared = false
  readonly #options: DiskEvictorOptions
  readonly #entriesPath: string
  #isCounted: boolean
  #isClosed = false
  #bytes: number
  #entries: number
  #evicting: Promise<void> | undefined

  constructor (options: DiskEvictorOptions) {
    this.#options = options
    this.#entriesPath = join(options.path, 'entries')
    this.#isCounted = options.knownSize !== undefined
    this.#bytes = options.knownSize?.bytes ?? 0
    this.#entries = options.knownSize?.entries ?? 0
  }

  get bytes (): number {
    return this.#bytes
  }

  get entries (): number {
    return this.#entries
  }

  get maxBytes (): number {
    return this.#options.maxBytes
  }

  /** Size to remember for the next start; undefined before it is known. */
  get size (): DiskSize | undefined {
    return this.#isCounted ? { bytes: this.#bytes, entries: this.#entries } : undefined
  }

  has (bytes: number): boolean {
    return this.#isCounted && hasRoom(this.#bytes + bytes, this.maxBytes)
  }

  add (bytes: number, entries: number): void {
    this.#bytes = Math.max(0, this.#bytes + bytes)
    this.#entries = Math.max(0, this.#entries + entries)
    if (this.#isCounted && this.#bytes > this.maxBytes * evictFrom) this.#startEvicting()
  }

  /** Counts all files, one after another; what is stored meanwhile may count twice, which errs on the safe side. */
  async count (): Promise<void> {
    const before = { bytes: this.#bytes, entries: this.#entries }
    let [bytes, entries] = [0, 0]
    for await (const files of this.#folders()) {
      if (files.length > 0) bytes += blockBytes
      for (const file of files) {
        bytes += file.bytes
        if (!file.isIndex) entries++
      }
    }
    if (this.#isClosed) return
    this.#bytes = bytes + Math.max(0, this.#bytes - before.bytes)
    this.#entries = entries + Math.max(0, this.#entries - before.entries)
    this.#isCounted = true
    this.add(0, 0)
  }

  /** Resolves when no eviction is in progress. */
  async waitUntilIdle (): Promise<void> {
    await this.#evicting
  }

  async close (): Promise<void> {
    this.#isClosed = true
    await this.#evicting
  }

  #startEvicting (): void {
    this.#evicting ??= this.#evict().finally(() => {
      this.#evicting = undefined
    })
  }

  // Samples as many folders as a comparison needs, and drops the least recently used files of each sample.
  async #evict (): Promise<void> {
    let sample: SizedFile[] = []
    const isDone = (): boolean => this.#isClosed || this.#bytes <= this.maxBytes * evictTo
    for await (const files of this.#folders()) {
      sample.push(...files)
      if (isDone()) return
      if (sample.length < sampleSize) continue
      await this.#evictOldest(sample, isDone)
      sample = []
    }
    await this.#evictOldest(sample, isDone)
  }

  async #evictOldest (sample: readonly SizedFile[], isDone: () => boolean): Promise<void> {
    const oldest = sample.toSorted((a, b) => a.usedAtMs - b.usedAtMs).slice(0, Math.ceil(sample.length * evictedShare))
    for (const { path, bytes, isIndex } of oldest) {
      if (isDone()) return
      if (
        !await this.#attempt(async () => {
          await unlink(path)
          return true
        }, false)
      ) continue
      this.#bytes = Math.max(0, this.#bytes - bytes)
      await this.#removeIfEmpty(dirname(path))
      if (isIndex) continue
      this.#entries = Math.max(0, this.#entries - 1)
      this.#options.evicted()
    }
  }

  /** Lists the folders that hold files, in an order that starts at another place each time; removes empty ones. */
  async *#folders (): AsyncGenerator<readonly SizedFile[]> {
    for (const space of await this.#foldersIn(this.#entriesPath)) {
      for (const upper of rotated(await this.#foldersIn(space, entryFolderNames.upper))) {
        for (const folder of rotated(await this.#foldersIn(upper, entryFolderNames.lower))) {
          if (this.#isClosed) return
          yield await this.#filesIn(folder)
        }
      }
    }
  }

  async #foldersIn (path: string, names = /^/): Promise<string[]> {
    const found = (await this.#list(path)).filter(each => each.isDirectory() && names.test(each.name))
    return found.map(({ name }) => join(path, name))
  }

  async #filesIn (folder: string): Promise<SizedFile[]> {
    const listed = await this.#list(folder)
    if (listed.length === 0) await this.#removeIfEmpty(folder)
    const files: SizedFile[] = []
    // Removes only what varve has written.
    for (const { name } of listed.filter(({ name }) => entryFileName.test(name))) {
      const path = join(folder, name)
      const found = await this.#attempt<Stats | undefined>(async () => await lstat(path), undefined)
      if (found?.isFile() === true) {
        files.push({ path, bytes: found.blocks * 512, isIndex: name.endsWith(indexSuffix), usedAtMs: found.mtimeMs })
      }
    }
    return files
  }

  // Fails unless the folder is still empty; a write makes it again.
  async #removeIfEmpty (folder: string): Promise<void> {
    await rmdir(folder).then(() => {
      this.#bytes = Math.max(0, this.#bytes - blockBytes)
    }, () => {})
  }

  async #list (path: string): Promise<Dirent[]> {
    return await this.#attempt(async () => await readdir(path, { withFileTypes: true }), [])
  }

  /** Runs an operation on a file; one that fails must not stop the count or the eviction of the rest. */
  async #attempt<T> (run: () => Promise<T>, otherwise: T): Promise<T> {
    try {
      return await run()
    } catch (error) {
      if (!isAbsent(error)) this.#options.onError()
      return otherwise
    }
  }
}

/** Returns false for a size at which nothing more is written. */
export function hasRoom (bytes: number, maxBytes: number): boolean {
  return bytes <= maxBytes * dropFrom
}

/** Returns a list from a random place on, so that eviction does not always begin with the same folders. */
function rotated<T> (list: readonly T[]): T[] {
  const from = Math.floor(Math.random() * list.length)
  return [...list.slice(from), ...list.slice(0, from)]
}

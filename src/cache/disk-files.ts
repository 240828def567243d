import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { appendFile, type FileHandle, lstat, mkdir, open, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { withTimeout } from '../with-timeout.js'

/** Operations of the disk tier, as its error counter names them. */
export const diskOperations = ['read', 'write', 'remove', 'scan'] as const

/** One of the closed list. */
export type DiskOperation = typeof diskOperations[number]

/** Size of the files below a folder. */
export interface DiskSize {
  readonly bytes: number
  readonly entries: number
}

/** Settings of the files of a disk tier. */
export interface DiskFilesOptions {
  /** Folder of the tier; it exists, and has a folder `tmp`. */
  readonly path: string
  /** Body of the longest entry; a file that no such entry needs is not read. */
  readonly maxEntryBytes: number
  readonly wallClockMs: () => number
  readonly onError: (operation: DiskOperation) => void
}

// Node.js has four threads for files, DNS look-ups and compression: a disk that hangs must leave two of them free.
const maxConcurrentReads = 2
const maxWaitingReads = 512
// Eviction removes a new folder that it finds empty, so a write may need several.
const mostFolders = 5
// A slower read is a miss (law 6: the cache can only help).
const readTimeoutMs = 250
// Small files need one read; a longer one is read again with its size.
const readAheadBytes = 16_384
/** File systems give files and folders whole blocks. */
export const blockBytes = 4096
/** Names with this prefix are indexes, and their files have the suffix. */
export const indexPrefix = 'index '
export const indexSuffix = '.index'
/** Names of the files that hold entries and indexes, and of their two levels of folders. */
export const entryFileName = /^[0-9a-f]{37}(?:\.index)?$/
export const entryFolderNames = { upper: /^[0-9a-f]$/, lower: /^[0-9a-f]{2}$/ } as const
/** Names of all files that varve writes to `tmp`. */
export const temporaryName = /^(?:\d+-\d+|\d+\.\d+|size|probe)$/
// The six texts of an entry and its numbers.
const mostBytesBesideBody = 6 * 65_537 + 256
// A pipe would block a thread of Node.js for ever, and a link may lead out of the folder.
const cautious = constants.O_NONBLOCK | constants.O_NOFOLLOW
const readFlags = constants.O_RDONLY | cautious
/** Flags to append to a file, and to write one, whose name may be a link or a pipe. */
export const appendFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | cautious
export const writeFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | cautious
// Errors of a link, a socket, a pipe and a folder.
const foreignKinds: ReadonlySet<unknown> = new Set(['ELOOP', 'ENXIO', 'ESPIPE', 'EISDIR'])
// Stands for a file that is not varve's: neither a record nor an index.
const damage = Buffer.from([0])
// The state of a chain takes a few kB.
const mostStateBytes = 1_048_576

/** Error for a look-up that the disk does not get to in time. */
class DiskBusyError extends Error {}

/**
 * Files of the disk tier: one per name, in two levels of folders. A file is written under a temporary name and then
 * renamed, so that no reader and no crash ever meets part of one.
 */
export class DiskFiles {
  readonly #options: DiskFilesOptions
  readonly #waiting: Array<() => void> = []
  #reading = 0
  #temporary = 0
  // Set by a read that took too long, until any read ends.
  #isHanging = false

  constructor (options: DiskFilesOptions) {
    this.#options = options
  }

  /** Returns the path of a file in a space, which is a folder of its own. */
  pathOf (space: string, name: string): string {
    const digest = createHash('sha256').update(name).digest('hex').slice(0, 40)
    const file = `${digest.slice(3)}${name.startsWith(indexPrefix) ? indexSuffix : ''}`
    return join(this.#options.path, 'entries', space, digest.slice(0, 1), digest.slice(1, 3), file)
  }

  /** True while reads do not come back. */
  get isHanging (): boolean {
    return this.#isHanging
  }

  /** Reads a file, and marks it as used; undefined if there is none. Rejects if the disk fails or is too slow. */
  async read (space: string, name: string): Promise<Buffer | undefined> {
    try {
      if (this.#isHanging) throw new DiskBusyError('the disk does not respond')
      // Wraps the result, because a timeout is undefined too.
      const reading = this.#readInTurn(this.pathOf(space, name)).then(bytes => ({ bytes }))
      // A failure after the time limit belongs to no look-up.
      reading.catch(() => {})
      const result = await withTimeout(readTimeoutMs, reading)
      if (result !== undefined) return result.bytes
      this.#isHanging = true
      throw new DiskBusyError('timed out')
    } catch (error) {
      if (isAbsent(error)) return undefined
      this.#options.onError('read')
      throw error
    }
  }

  /** Writes a file, and returns what that adds to the disk beyond a file that it replaces; rejects if the disk does. */
  async write (space: string, name: string, bytes: Buffer): Promise<DiskSize> {
    const path = this.pathOf(space, name)
    const temporary = join(this.#options.path, 'tmp', `${temporaryPrefixOf(process.pid)}${++this.#temporary}`)
    return await this.#counted('write', async () => {
      try {
        await writeFile(temporary, bytes, { flag: writeFlags })
        // Entries with a lifetime are written again and again, and must not count more than once.
        const replaced = await sizeOf(path)
        const folders = await inFolderOf(path, async () => {
          await rename(temporary, path)
        })
        return {
          bytes: folders + bytesOnDisk(bytes.length) - bytesOnDisk(replaced ?? 0),
          entries: replaced === undefined ? 1 : 0
        }
      } catch (error) {
        await rm(temporary, { force: true }).catch(() => {})
        throw error
      }
    })
  }

  /** Appends to a file, and returns the bytes that new folders need on the disk; rejects if the disk does. */
  async append (space: string, name: string, bytes: Buffer): Promise<number> {
    const path = this.pathOf(space, name)
    return await this.#counted('write', async () =>
      await inFolderOf(path, async () => {
        await appendFile(path, bytes, { flag: appendFlags })
      }))
  }

  /** Removes a file, durable once it resolves, and returns its bytes on the disk; rejects if the disk does. */
  async remove (space: string, name: string): Promise<number> {
    const path = this.pathOf(space, name)
    return await this.#counted('remove', async () => {
      try {
        const { size } = await lstat(path)
        await unlink(path)
        await syncFolder(dirname(path))
        return bytesOnDisk(size)
      } catch (error) {
        if (isAbsent(error)) return 0
        throw error
      }
    })
  }

  async #counted<T> (operation: DiskOperation, run: () => Promise<T>): Promise<T> {
    try {
      return await run()
    } catch (error) {
      this.#options.onError(operation)
      throw error
    }
  }

  async #readInTurn (path: string): Promise<Buffer> {
    await this.#takeTurn()
    try {
      return await this.#readNow(path)
    } finally {
      this.#isHanging = false
      this.#reading--
      this.#waiting.shift()?.()
    }
  }

  async #readNow (path: string): Promise<Buffer> {
    try {
      return await this.#readWhole(await open(path, readFlags))
    } catch (error) {
      if (foreignKinds.has((error as NodeJS.ErrnoException).code)) return damage
      throw error
    }
  }

  async #readWhole (file: FileHandle): Promise<Buffer> {
    try {
      const start = Buffer.allocUnsafe(readAheadBytes)
      const { bytesRead } = await file.read(start, 0, readAheadBytes, 0)
      const nowSeconds = this.#options.wallClockMs() / 1000
      // Eviction reads this time. A file system that rejects it, such as a read-only one, evicts nothing.
      file.utimes(nowSeconds, nowSeconds).catch(() => {})
      if (bytesRead < readAheadBytes) return start.subarray(0, bytesRead)
      // Reads from the start again: a read at a position does not move the file's own.
      return await readRegular(file, this.#options.maxEntryBytes + mostBytesBesideBody) ?? damage
    } finally {
      await file.close()
    }
  }

  async #takeTurn (): Promise<void> {
    if (this.#reading >= maxConcurrentReads) {
      if (this.#waiting.length >= maxWaitingReads) throw new DiskBusyError('too many reads wait for the disk')
      await new Promise<void>(resolve => {
        this.#waiting.push(resolve)
      })
    }
    this.#reading++
  }
}

/** Returns the beginning of the names of temporary files: processes that share a folder have names of their own. */
export function temporaryPrefixOf (pid: number): string {
  return `${pid}-`
}

/** Runs an action in the folder of a path, which is made if it is missing; returns the bytes that new folders need. */
async function inFolderOf (path: string, action: () => Promise<void>, made = 0): Promise<number> {
  try {
    await action()
    return made * blockBytes
  } catch (error) {
    if (!isAbsent(error) || made === mostFolders) throw error
  }
  // Only below `entries`: a folder that was removed gets its mark and its lock first.
  const lower = dirname(path)
  const upper = dirname(lower)
  for (const folder of [dirname(upper), upper, lower]) await makeFolder(folder)
  return await inFolderOf(path, action, made + 1)
}

/** Makes a folder unless it exists; one level, because in some file systems Node.js never ends making several. */
export async function makeFolder (path: string): Promise<void> {
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** Returns the size of a file; undefined if there is none. */
async function sizeOf (path: string): Promise<number | undefined> {
  try {
    return (await lstat(path)).size
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

/** Returns the bytes that a file of a size needs on the disk: whole blocks. */
export function bytesOnDisk (size: number): number {
  return Math.ceil(size / blockBytes) * blockBytes
}

/** Returns the contents of a file; undefined for one that is too long, or no regular file. */
async function readRegular (file: FileHandle, maxBytes: number): Promise<Buffer | undefined> {
  const found = await file.stat()
  return found.isFile() && found.size <= maxBytes ? await file.readFile() : undefined
}

/** Reads a small file of text beside the entries; undefined if it is none. */
export async function readState (path: string): Promise<string | undefined> {
  try {
    const file = await open(path, readFlags)
    try {
      return (await readRegular(file, mostStateBytes))?.toString()
    } finally {
      await file.close()
    }
  } catch {
    return undefined
  }
}

/** Makes the names in a folder survive a power loss. */
export async function syncFolder (path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Returns true for an error about a file or folder that does not exist. */
export function isAbsent (error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

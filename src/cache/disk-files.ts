import { constants, readSync, writevSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { withTimeout } from '../with-timeout.js'

/** Operations of the disk tier, as its error counter names them. */
export const diskOperations = ['read', 'write', 'remove', 'scan'] as const

/** Operation of the disk tier. */
export type DiskOperation = typeof diskOperations[number]

// Limits reads in progress and reads that wait. Node.js has four threads for files, DNS look-ups and compression; a
// disk that hangs must leave two of them free.
const maxConcurrentReads = 2
const maxWaitingReads = 512
// A slower read is a miss (law 6: the cache can only help).
const readTimeoutMs = 250
// Limits descriptors; closes the least recently used file, which its next read opens again.
const maxOpenFiles = 256
/** Name of a segment, also behind the name of its folder. */
export const segmentName = /(?:^|\/)(\d{8})\.segment$/
// Flags against a pipe, which would block a thread of Node.js for ever, and a link, which may lead out of the folder.
const cautious = constants.O_NONBLOCK | constants.O_NOFOLLOW
/** Flags to write a file whose name may be a link or a pipe. */
export const writeFlags = constants.O_WRONLY | constants.O_CREAT | cautious
const readFlags = constants.O_RDONLY | cautious
// Lets only varve's user read cached data.
const fileMode = 0o600
/** Mode of a folder that only varve's user may use. */
export const folderMode = 0o700

/** Settings of the files of a disk tier. */
export interface DiskFilesOptions {
  readonly path: string
  /** True if the folder lies in memory, where no read waits. */
  readonly isMemory?: boolean
  readonly onError: (operation: DiskOperation) => void
}

/** Files of segments in one folder. A look-up waits 250 ms at most, and not at all while the disk hangs. */
export class DiskFiles {
  readonly #options: DiskFilesOptions
  readonly #open = new LRUCache<number, Promise<FileHandle>>({
    max: maxOpenFiles,
    dispose: opening => opening.then(async file => await file.close()).catch(() => {})
  })

  readonly #waiting: Array<() => void> = []
  #reading = 0
  // True from a read that takes too long until any read ends.
  #isHanging = false

  constructor (options: DiskFilesOptions) {
    this.#options = options
  }

  /** True while reads take too long. */
  get isHanging (): boolean {
    return this.#isHanging
  }

  /** Lists the numbers of the segments, oldest first. */
  async list (): Promise<number[]> {
    const names = await readdir(this.#options.path, { withFileTypes: true })
    return names.flatMap(each => each.isFile() ? segmentName.exec(each.name)?.slice(1).map(Number) ?? [] : []).sort((
      a,
      b
    ) => a - b)
  }

  async sizeOf (segment: number): Promise<number> {
    return (await lstat(this.#pathOf(segment))).size
  }

  /** Reads for a look-up; undefined if the segment is gone. Rejects if the disk fails or is too slow. */
  async lookUp (segment: number, offset: number, length: number): Promise<Buffer | undefined> {
    try {
      if (this.#options.isMemory === true) return await this.read(segment, offset, length)
      if (this.#isHanging) throw new Error('the disk does not respond')
      // Wraps the result, because a timeout is undefined too.
      const reading = this.#readInTurn(segment, offset, length).then(bytes => ({ bytes }))
      // Ignores a failure after the time limit, because its look-up has ended.
      reading.catch(() => {})
      const result = await withTimeout(readTimeoutMs, reading)
      if (result !== undefined) return result.bytes
      this.#isHanging = this.#reading > 0
      throw new Error('timed out')
    } catch (error) {
      if (isAbsent(error)) return undefined
      this.#options.onError('read')
      throw error
    }
  }

  /** Reads some bytes, fewer at the end of a file. */
  async read (segment: number, offset: number, length: number): Promise<Buffer> {
    const opening = this.#open.get(segment) ?? open(this.#pathOf(segment), readFlags)
    if (!this.#open.has(segment)) this.#open.set(segment, opening)
    try {
      const [file, buffer] = [await opening, Buffer.allocUnsafeSlow(length)]
      const bytesRead = this.#options.isMemory === true
        ? readSync(file.fd, buffer, 0, length, offset)
        : (await file.read(buffer, 0, length, offset)).bytesRead
      return buffer.subarray(0, bytesRead)
    } catch (error) {
      this.#open.delete(segment)
      throw error
    }
  }

  /** Makes a segment; rejects if anything has its name. */
  async create (segment: number): Promise<FileHandle> {
    return await open(this.#pathOf(segment), writeFlags | constants.O_EXCL, fileMode)
  }

  /** Opens a segment for writing. */
  async openToWrite (segment: number): Promise<FileHandle> {
    return await open(this.#pathOf(segment), constants.O_WRONLY | cautious)
  }

  /** Writes at an offset; rejects unless all bytes were written. */
  async write (file: FileHandle, bytes: readonly Buffer[], offset: number): Promise<void> {
    const written = this.#options.isMemory === true
      ? writevSync(file.fd, bytes, offset)
      : (await file.writev(bytes, offset)).bytesWritten
    const wanted = bytes.reduce((sum, { length }) => sum + length, 0)
    if (written < wanted) throw new Error('ENOSPC: no space left on the device')
  }

  /** Removes a segment; counts an error if that fails. */
  async remove (segment: number): Promise<void> {
    this.#open.delete(segment)
    await unlink(this.#pathOf(segment)).catch((error: unknown) => {
      if (!isAbsent(error)) this.#options.onError('remove')
    })
  }

  /** Closes the file of a segment. */
  forget (segment: number): void {
    this.#open.delete(segment)
  }

  /** Closes all files; later reads open them again. */
  close (): void {
    this.#open.clear()
  }

  #pathOf (segment: number): string {
    return join(this.#options.path, `${String(segment).padStart(8, '0')}.segment`)
  }

  async #readInTurn (segment: number, offset: number, length: number): Promise<Buffer> {
    if (this.#reading >= maxConcurrentReads) {
      if (this.#waiting.length >= maxWaitingReads) throw new Error('too many reads wait for the disk')
      await new Promise<void>(resolve => {
        this.#waiting.push(resolve)
      })
    }
    this.#reading++
    try {
      return await this.read(segment, offset, length)
    } finally {
      this.#isHanging = false
      this.#reading--
      this.#waiting.shift()?.()
    }
  }
}

/**
 * Makes a folder unless it exists; makes no folder above it, because in some file systems Node.js never ends making
 * several.
 */
export async function makeFolder (path: string): Promise<void> {
  await mkdir(path, folderMode).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/**
 * Writes a small file durably: after a power loss it has the old or the new content, and once this resolves, the new
 * content.
 */
export async function writeDurably (path: string, name: string, content: string | Buffer): Promise<void> {
  const temporary = join(path, `${name}.new`)
  const file = await open(temporary, writeFlags | constants.O_TRUNC, fileMode)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, join(path, name))
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

import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryName, temporaryPrefixOf, writeFlags } from '../cache/disk-files.js'
import { DiskEvictor, type DiskRoom } from '../cache/disk-evictor.js'
import { encodeWithChecksum } from '../peers/checksummed-json.js'
import { type FolderSpaces } from '../peers/folder-spaces.js'
import { type Metrics } from '../metrics/metrics.js'
import { type OpenFolder } from './disk-folder.js'

/** Folder of the disk tier as one process uses it: alone, or with the workers beside it. */
export interface UsedFolder {
  readonly path: string
  readonly spaces: FolderSpaces
  readonly room: DiskRoom
  /** Begins to count, to evict and to save the size. */
  start(): void
  /** Saves the size and gives the folder up. */
  stop(): Promise<void>
}

const bytesPerGb = 1024 ** 3
const saveSizeEveryMs = 500
/** A disk that hangs holds a stop no longer. */
export const stopTimeoutMs = 2000

/** Folder that this process has locked: it counts the files, evicts, and makes every change of the records. */
export class LocalDiskFolder implements UsedFolder {
  readonly path: string
  readonly spaces: FolderSpaces
  readonly room: DiskEvictor
  readonly #open: OpenFolder
  readonly #metrics: Metrics
  #timer: NodeJS.Timeout | undefined
  #counting: Promise<void> | undefined
  #saving: Promise<void> | undefined
  #savedBytes: number | undefined

  constructor (open: OpenFolder, maxGb: number, metrics: Metrics) {
    this.path = open.path
    this.spaces = open.spaces
    this.#open = open
    this.#metrics = metrics
    this.room = new DiskEvictor({
      path: open.path,
      maxBytes: maxGb * bytesPerGb,
      knownSize: open.knownSize,
      evicted: () => {
        metrics.evicted('disk')
      },
      onError: () => {
        metrics.diskFailed('scan')
      }
    })
  }

  start (): void {
    this.#counting = this.room.count()
    this.#timer = setInterval(() => {
      this.#saving ??= this.#saveSize().finally(() => {
        this.#saving = undefined
      })
    }, saveSizeEveryMs).unref()
  }

  async stop (): Promise<void> {
    clearInterval(this.#timer)
    await this.room.close()
    await this.#counting
    await this.#saving
    await this.#saveSize()
    await this.#open.close()
  }

  /** Removes what a killed process of this folder was writing. */
  async removeTemporaryFilesOf (pid: number): Promise<void> {
    const folder = join(this.path, 'tmp')
    for (const name of await readdir(folder)) {
      if (!name.startsWith(temporaryPrefixOf(pid)) || !temporaryName.test(name)) continue
      await rm(join(folder, name), { force: true })
    }
  }

  async #saveSize (): Promise<void> {
    const temporary = join(this.path, 'tmp', 'size')
    try {
      if (await this.#open.remake()) {
        this.#savedBytes = undefined
        this.#counting = this.room.count()
        const [newest] = this.spaces.list
        if (newest !== undefined) await this.spaces.put(newest.record)
      }
      const { size } = this.room
      if (size === undefined || size.bytes === this.#savedBytes) return
      await writeFile(temporary, encodeWithChecksum(size), { flag: writeFlags })
      await rename(temporary, join(this.path, 'size'))
      this.#savedBytes = size.bytes
    } catch {
      this.#metrics.diskFailed('write')
    }
  }
}

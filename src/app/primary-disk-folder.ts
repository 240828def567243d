import { type TierStatus } from '../cache/tier.js'
import { type DiskToPrimary, type DiskToWorker, type FolderSize, type FolderState } from '../peers/disk-messages.js'
import { withTimeout } from '../with-timeout.js'
import { type LocalDiskFolder, stopTimeoutMs } from './local-disk-folder.js'

type ChangeRequest = Extract<DiskToPrimary, { kind: 'disk_change' }>

// Many writes share a message; in this time one worker may not see what the others add.
const publishEveryMs = 20

/** Folder of the disk tier that the primary process owns and all workers use; a tier to metrics. */
export class PrimaryDiskFolder {
  readonly name = 'disk'
  readonly #folder: LocalDiskFolder
  readonly #broadcast: (message: DiskToWorker) => void
  #changing: Promise<void> = Promise.resolve()
  #published: FolderSize
  readonly #timer: NodeJS.Timeout

  constructor (folder: LocalDiskFolder, broadcast: (message: DiskToWorker) => void) {
    this.#folder = folder
    this.#broadcast = broadcast
    this.#published = this.#size
    folder.start()
    // Counting and evicting change the size too, so no message of a worker could start this.
    this.#timer = setInterval(() => {
      this.#publishSize()
    }, publishEveryMs).unref()
  }

  /** Returns what a worker needs to begin. */
  get state (): FolderState {
    const { path, spaces } = this.#folder
    return { path, spaces: spaces.list, size: this.#size }
  }

  /** Size for metrics, which no worker counts. */
  get status (): TierStatus {
    const { bytes, entries, maxBytes } = this.#size
    return { bytes, entries, maxBytes }
  }

  get #size (): FolderSize {
    const { bytes, entries, maxBytes, size } = this.#folder.room
    return { bytes, entries, maxBytes, isCounted: size !== undefined }
  }

  /** Makes a change for a worker, after all changes before it, and publishes the spaces before it responds. */
  change ({ id, change }: ChangeRequest, respond: (message: DiskToWorker) => void): void {
    this.#changing = this.#changing.then(async () => {
      try {
        if (change.kind === 'put') await this.#folder.spaces.put(change.record, change.replacesAll)
        else await this.#folder.spaces.renew(change.name)
        this.#broadcast({ kind: 'disk_spaces', spaces: this.#folder.spaces.list })
        respond({ kind: 'disk_changed', id })
      } catch (error) {
        respond({ kind: 'disk_changed', id, error: (error as Error).message })
      }
    })
  }

  /** Counts what a worker has written or removed. */
  use ({ bytes, entries }: Extract<DiskToPrimary, { kind: 'disk_used' }>): void {
    this.#folder.room.add(bytes, entries)
  }

  /** Removes what a worker that is gone was writing. */
  async removeTemporaryFilesOf (pid: number): Promise<void> {
    await this.#folder.removeTemporaryFilesOf(pid)
  }

  async stop (): Promise<void> {
    clearInterval(this.#timer)
    await withTimeout(
      stopTimeoutMs,
      this.#changing.then(async () => {
        await this.#folder.stop()
      })
    )
  }

  #publishSize (): void {
    const [last, size] = [this.#published, this.#size]
    if (size.bytes === last.bytes && size.entries === last.entries && size.isCounted === last.isCounted) return
    this.#published = size
    this.#broadcast({ kind: 'disk_size', size })
  }
}

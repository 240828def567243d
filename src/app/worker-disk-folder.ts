import { FolderSpaces, type SpaceChange } from '../peers/folder-spaces.js'
import { hasRoom } from '../cache/disk-evictor.js'
import { withTimeout } from '../with-timeout.js'
import { Deferred } from '../peers/deferred.js'
import { type DiskToPrimary, type DiskToWorker, type FolderSize, type FolderState } from '../peers/disk-messages.js'
import { type UsedFolder } from './local-disk-folder.js'

// A change waits for the disk of the primary process; later it counts as failed and is repeated.
const changeTimeoutMs = 5000

/** Folder of the disk tier in a worker: the files are its own work, spaces and size those of the primary process. */
export class WorkerDiskFolder implements UsedFolder {
  readonly path: string
  readonly spaces: FolderSpaces
  readonly room: RemoteRoom
  readonly #changes: PendingChanges

  constructor ({ path, spaces, size }: FolderState, send: (message: DiskToPrimary) => void) {
    this.path = path
    this.room = new RemoteRoom(size, send)
    this.#changes = new PendingChanges(send)
    this.spaces = new FolderSpaces(async change => {
      await this.#changes.make(change)
    })
    this.spaces.replace(spaces)
  }

  onMessage (message: DiskToWorker): void {
    switch (message.kind) {
      case 'disk_spaces':
        return this.spaces.replace(message.spaces)
      case 'disk_size':
        return this.room.update(message.size)
      case 'disk_changed':
        return this.#changes.onResult(message)
    }
  }

  start (): void {}

  async stop (): Promise<void> {}
}

/** Changes of the spaces on their way to the primary process, which makes one after another. */
class PendingChanges {
  readonly #send: (message: DiskToPrimary) => void
  readonly #pending = new Map<number, Deferred<true>>()
  #lastId = 0

  constructor (send: (message: DiskToPrimary) => void) {
    this.#send = send
  }

  onResult ({ id, error }: Extract<DiskToWorker, { kind: 'disk_changed' }>): void {
    const pending = this.#pending.get(id)
    if (error === undefined) pending?.resolve(true)
    else pending?.reject(new Error(error))
  }

  async make (change: SpaceChange): Promise<void> {
    const id = ++this.#lastId
    const result = new Deferred<true>()
    this.#pending.set(id, result)
    this.#send({ kind: 'disk_change', id, change })
    try {
      if (await withTimeout(changeTimeoutMs, result.promise) === undefined) {
        throw new Error('the primary process does not respond')
      }
    } finally {
      this.#pending.delete(id)
    }
  }
}

/** Room as the primary process last counted it, with what this worker has added since. */
class RemoteRoom {
  readonly isShared = true
  readonly #send: (message: DiskToPrimary) => void
  #size: FolderSize

  constructor (size: FolderSize, send: (message: DiskToPrimary) => void) {
    this.#size = size
    this.#send = send
  }

  get bytes (): number {
    return this.#size.bytes
  }

  get entries (): number {
    return this.#size.entries
  }

  get maxBytes (): number {
    return this.#size.maxBytes
  }

  has (bytes: number): boolean {
    return this.#size.isCounted && hasRoom(this.bytes + bytes, this.maxBytes)
  }

  add (bytes: number, entries: number): void {
    if (bytes === 0 && entries === 0) return
    this.#size = { ...this.#size, bytes: this.bytes + bytes, entries: this.entries + entries }
    this.#send({ kind: 'disk_used', bytes, entries })
  }

  update (size: FolderSize): void {
    this.#size = size
  }
}

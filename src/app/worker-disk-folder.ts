import { DiskGenerations, type DiskChange, type FolderRegistry } from '../cluster/disk-generations.js'
import { hasRoom } from '../cache/disk-evictor.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { type GenerationRecord, type UpstreamChain } from '../chain/generation-record.js'
import { type RegisteredGenerations } from '../chain/generation-registry.js'
import { withTimeout } from '../with-timeout.js'
import { Deferred } from '../workers/deferred.js'
import { type FolderSize, type FolderState, type ToPrimary, type ToWorker } from '../workers/messages.js'
import { type UsedFolder } from './local-disk-folder.js'

/** Message about the folder from the primary process. */
export type FolderToWorker = Extract<ToWorker, { kind: 'disk_records' | 'disk_size' | 'disk_changed' }>

// A change waits for the disk of the primary process; later it counts as failed and is repeated.
const changeTimeoutMs = 5000

/** Folder of the disk tier in a worker: the files are its own work, records and size those of the primary process. */
export class WorkerDiskFolder implements UsedFolder {
  readonly path: string
  readonly registry: RemoteRegistry
  readonly room: RemoteRoom

  constructor ({ path, records, size }: FolderState, send: (message: ToPrimary) => void) {
    this.path = path
    this.registry = new RemoteRegistry(send)
    this.room = new RemoteRoom(size, send)
    this.registry.records.replace(records)
  }

  onMessage (message: FolderToWorker): void {
    switch (message.kind) {
      case 'disk_records':
        return this.registry.records.replace(message.records)
      case 'disk_size':
        return this.room.update(message.size)
      case 'disk_changed':
        return this.registry.onResult(message.id, message.result)
    }
  }

  start (): void {}

  async stop (): Promise<void> {}
}

/** Mirror of the records; the primary process makes each change, one after another, and publishes it to all workers. */
class RemoteRegistry implements FolderRegistry {
  readonly records = new DiskGenerations()
  readonly #send: (message: ToPrimary) => void
  readonly #pending = new Map<number, Deferred<boolean>>()
  #lastId = 0

  constructor (send: (message: ToPrimary) => void) {
    this.#send = send
  }

  async read (chainId: number): Promise<RegisteredGenerations> {
    return this.records.stateOf(chainId)
  }

  async rememberedUpstreams (): Promise<readonly UpstreamChain[]> {
    return []
  }

  async claim (chainId: number, generation: number, known: GenerationRecord): Promise<boolean> {
    return await this.#change({ kind: 'claim', chain: { id: chainId, generation }, known })
  }

  async update (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#change({ kind: 'update', chain, known })
  }

  async renew (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#change({ kind: 'renew', chain, known })
  }

  onResult (id: number, result: Extract<ToWorker, { kind: 'disk_changed' }>['result']): void {
    const pending = this.#pending.get(id)
    if ('error' in result) pending?.reject(new Error(result.error))
    else pending?.resolve(result.isDone)
  }

  async #change (change: DiskChange): Promise<boolean> {
    const id = ++this.#lastId
    const result = new Deferred<boolean>()
    this.#pending.set(id, result)
    this.#send({ kind: 'disk_change', id, change })
    try {
      const isDone = await withTimeout(changeTimeoutMs, result.promise)
      if (isDone === undefined) throw new Error('the primary process does not respond')
      return isDone
    } finally {
      this.#pending.delete(id)
    }
  }
}

/** Room as the primary process last counted it, with what this worker has added since. */
class RemoteRoom {
  readonly isShared = true
  readonly #send: (message: ToPrimary) => void
  #size: FolderSize

  constructor (size: FolderSize, send: (message: ToPrimary) => void) {
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

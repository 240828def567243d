import { type Logger } from 'pino'
import { makeFolder } from '../cache/disk-files.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type WriteBudget } from '../cache/write-queue.js'
import { type Spaces } from '../chain/spaces.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { FolderSpaces } from '../peers/folder-spaces.js'
import { type WorkerSlot } from '../peers/messages.js'
import { withTimeout } from '../with-timeout.js'
import { type StoreBackend } from './store-backend.js'

/** Parts that the disk tier needs. */
export interface DiskBackendOptions {
  readonly maxEntryBytes: number
  readonly tracker: Tracker
  readonly spaces: Spaces
  readonly metrics: Metrics
  readonly inFlight: WriteBudget
  readonly now: () => number
}

const keepEveryMs = 500
// A larger folder is read on beside the reads of clients.
const maxLoadMs = 3000
// A disk that hangs holds a stop no longer.
const maxStopMs = 2000

/** Slot of this process with its spaces, opened before any part needs them. */
export class OpenDiskSlot {
  readonly slot: WorkerSlot
  readonly place: FolderSpaces
  readonly #release: () => Promise<void>

  private constructor (slot: WorkerSlot, place: FolderSpaces, release: () => Promise<void>) {
    this.slot = slot
    this.place = place
    this.#release = release
  }

  /** Opens a slot; `release` gives up what this process holds beside it. */
  static async open (
    slot: WorkerSlot,
    log: Logger,
    metrics: Metrics,
    release = async (): Promise<void> => {}
  ): Promise<OpenDiskSlot> {
    await makeFolder(slot.path)
    const place = await FolderSpaces.open(slot.path, name => {
      metrics.foundCorrupt()
      log.warn({ name }, 'unreadable file in cache.disk.path: set aside')
    })
    return new OpenDiskSlot(slot, place, release)
  }

  /** Builds the disk tier in the slot, and what keeps it true. */
  backend (options: DiskBackendOptions): StoreBackend & { readonly store: DiskTier } {
    const { slot, place } = this
    const { tracker, spaces, metrics, now } = options
    const store = new DiskTier({
      ...options,
      ...slot,
      wallClockMs: () => performance.timeOrigin + now(),
      space: () => spaces.isIn(place) ? tracker.space : undefined
    })
    const timers: NodeJS.Timeout[] = []
    const running: { keep?: Promise<void> | undefined } = {}
    const keep = async (): Promise<void> => {
      // Makes again what was removed.
      await makeFolder(slot.path)
      await store.resetIfRemoved()
      await place.restore()
      if (place.error !== undefined) metrics.diskFailed('write')
      // The tier counts failures, and repeats.
      await store.resume()
    }
    return {
      store,
      warnings: () => [
        ...(place.error === undefined ? [] : [`disk rejects the state of the chain: ${place.error}`]),
        ...(tracker.space !== undefined && !spaces.isIn(place)
          ? ['disk tier not read: no upstream has proven yet that its entries are of this chain']
          : [])
      ],
      start: async () => {
        timers.push(
          setInterval(() => {
            running.keep ??= keep().catch(() => {}).finally(() => {
              running.keep = undefined
            })
          }, keepEveryMs).unref()
        )
        await withTimeout(maxLoadMs, store.load())
      },
      stop: async () => {
        timers.forEach(clearInterval)
        // Nothing is made again after the folder is given up.
        await withTimeout(maxStopMs, Promise.all([running.keep, place.close()]).then(this.#release))
      }
    }
  }
}

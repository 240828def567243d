import { DiskFiles } from '../cache/disk-files.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type Spaces } from '../chain/spaces.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { withTimeout } from '../with-timeout.js'
import { type FolderSpaces } from '../peers/folder-spaces.js'
import { stopTimeoutMs, type UsedFolder } from './local-disk-folder.js'

/** Parts that the disk tier needs. */
export interface DiskBackendOptions {
  readonly maxEntryBytes: number
  readonly tracker: Tracker
  readonly spaces: Spaces
  readonly metrics: Metrics
  readonly inFlight: InFlightBytes
  readonly now: () => number
}

/** Disk tier with what it needs to stay true: the chain of its entries, its room, its lock. */
export interface DiskBackend {
  readonly tier: DiskTier
  /** Problems beside those of the tier, as readable sentences. */
  warnings(): readonly string[]
  /** Begins to count, to evict and to save. */
  start(): void
  /** Saves all, after the tier has been closed, and gives the folder up. */
  stop(): Promise<void>
}

const syncEveryMs = 500

/** Builds the disk tier in a folder, and what keeps it true. */
export function diskBackendOf (
  folder: UsedFolder,
  { maxEntryBytes, tracker, spaces, metrics, inFlight, now }: DiskBackendOptions
): DiskBackend {
  const { path, room, spaces: place } = folder
  const wallClockMs = (): number => performance.timeOrigin + now()
  const spaceFolder = (): string | undefined => {
    const { space } = tracker
    return space !== undefined && spaces.isIn(place) ? place.folderOf(space.name) : undefined
  }
  const tier = new DiskTier({
    files: new DiskFiles({
      path,
      maxEntryBytes,
      wallClockMs,
      onError: operation => {
        metrics.diskFailed(operation)
      }
    }),
    room,
    maxEntryBytes,
    metrics,
    holdQueued: buffer => inFlight.holdQueued(buffer),
    now,
    wallClockMs,
    space: spaceFolder,
    renewSpace: async () => {
      const { space } = tracker
      if (space === undefined || spaceFolder() === undefined) throw new Error('the chain is not proven yet')
      await place.renew(space.name)
    }
  })
  const keeper = new DiskKeeper(place, tier, metrics)
  return {
    tier,
    warnings: () => [
      ...(place.error === undefined ? [] : [`disk rejects the state of the chain: ${place.error}`]),
      ...(tracker.space !== undefined && spaceFolder() === undefined
        ? ['disk tier not read: no upstream has proven yet that its entries are of this chain']
        : [])
    ],
    start: () => {
      folder.start()
      keeper.start()
    },
    stop: async () => {
      keeper.stop()
      await withTimeout(stopTimeoutMs, folder.stop())
    }
  }
}

/** Repeats twice a second what the disk has refused. */
class DiskKeeper {
  readonly #place: FolderSpaces
  readonly #tier: DiskTier
  readonly #metrics: Metrics
  #timer: NodeJS.Timeout | undefined

  constructor (place: FolderSpaces, tier: DiskTier, metrics: Metrics) {
    this.#place = place
    this.#tier = tier
    this.#metrics = metrics
  }

  start (): void {
    this.#timer = setInterval(() => {
      this.#sync().catch(() => {})
    }, syncEveryMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  async #sync (): Promise<void> {
    if (this.#place.error !== undefined) this.#metrics.diskFailed('write')
    // The files count failures, and the tier stays hidden.
    await this.#tier.resume()
  }
}

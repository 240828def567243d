import { DiskFiles } from '../cache/disk-files.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type Generations } from '../chain/generations.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { withTimeout } from '../with-timeout.js'
import { stopTimeoutMs, type UsedFolder } from './local-disk-folder.js'
import { DiskGenerationSync } from './disk-generation-sync.js'

/** Parts that the disk tier needs. */
export interface DiskBackendOptions {
  readonly maxEntryBytes: number
  readonly tracker: Tracker
  readonly generations: Generations
  readonly metrics: Metrics
  readonly inFlight: InFlightBytes
  readonly now: () => number
  /** True without Redis: then nothing else follows the registry. */
  readonly isAlone: boolean
}

/** Disk tier with what it needs to stay true: the chain of its entries, its room, its lock. */
export interface DiskBackend {
  readonly tier: DiskTier
  /** True if other workers use the folder too. */
  readonly isShared: boolean
  /** Problems beside those of the tier, as readable sentences. */
  warnings(): readonly string[]
  /** Begins to count, to evict and to save. */
  start(): void
  /** Restores the chain that was served last, while no upstream responds. */
  restoreChain(): Promise<void>
  /** Follows the folder and saves the generation; resolves once a purge of everything is durable, or rejects. */
  sync(): Promise<void>
  /** Saves all, after the tier has been closed, and gives the folder up. */
  stop(): Promise<void>
}

const syncEveryMs = 500

/** Builds the disk tier in a folder, and what keeps it true. */
export function diskBackendOf (
  folder: UsedFolder,
  { maxEntryBytes, tracker, generations, metrics, inFlight, now, isAlone }: DiskBackendOptions
): DiskBackend {
  const { path, room, registry } = folder
  const { isShared } = room
  const wallClockMs = (): number => performance.timeOrigin + now()
  const generationSync = new DiskGenerationSync(
    registry,
    tracker,
    generations,
    isAlone ? isShared ? 'workers' : 'own' : 'none'
  )
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
    space: () => generationSync.space,
    renewSpace: async () => {
      await generationSync.renew()
    }
  })
  const saver = new DiskSaver(generationSync, tier, metrics, now)
  return {
    tier,
    isShared,
    warnings: () => [
      ...(saver.error === undefined ? [] : [`disk rejects the state of the chain: ${saver.error}`]),
      ...(tracker.chain !== undefined && generationSync.space === undefined
        ? ['disk tier not read: no upstream has proven yet that its entries are of this chain']
        : [])
    ],
    start: () => {
      folder.start()
      saver.start()
    },
    restoreChain: async () => {
      if (tracker.chain === undefined) await generationSync.restoreChain()
    },
    sync: async () => {
      await saver.sync()
    },
    stop: async () => {
      await withTimeout(
        stopTimeoutMs,
        saver.stop().then(async () => {
          await folder.stop()
        })
      )
    }
  }
}

/** Saves the chain of the tier twice a second, where it changed. */
class DiskSaver {
  readonly #generationSync: DiskGenerationSync
  readonly #tier: DiskTier
  readonly #metrics: Metrics
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #error: string | undefined

  constructor (generationSync: DiskGenerationSync, tier: DiskTier, metrics: Metrics, now: () => number) {
    this.#generationSync = generationSync
    this.#tier = tier
    this.#metrics = metrics
    this.#now = now
  }

  /** Reason why the last save failed. */
  get error (): string | undefined {
    return this.#error
  }

  start (): void {
    this.#timer = setInterval(() => {
      this.sync().catch(() => {})
    }, syncEveryMs).unref()
  }

  /** Saves now; a call during a save waits for one that begins after it, which a purge needs. */
  async sync (): Promise<void> {
    while (this.#syncing !== undefined) await this.#syncing.catch(() => {})
    this.#syncing = this.#syncOnce().finally(() => {
      this.#syncing = undefined
    })
    await this.#syncing
  }

  async stop (): Promise<void> {
    clearInterval(this.#timer)
    this.#generationSync.saveAtNextSync()
    await this.sync().catch(() => {})
  }

  async #syncOnce (): Promise<void> {
    try {
      await this.#generationSync.sync(this.#now())
      this.#error = undefined
    } catch (error) {
      this.#error = (error as Error).message
      this.#metrics.diskFailed('write')
      throw error
    } finally {
      // The files count failures, and the tier stays hidden.
      await this.#tier.resume().catch(() => {})
    }
  }
}

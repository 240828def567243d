import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DiskFiles } from '../cache/disk-files.js'
import { DiskKeeper } from '../cache/disk-keeper.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type Generations } from '../chain/generations.js'
import { type Tracker } from '../chain/tracker.js'
import { encodeWithChecksum } from '../cluster/checksummed-json.js'
import { type Metrics } from '../metrics/metrics.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type OpenFolder } from './disk-folder.js'
import { ProvenSpace } from './proven-space.js'

/** Parts that the disk tier needs. */
export interface DiskBackendOptions {
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
  /** Problems beside those of the tier, as readable sentences. */
  warnings(): readonly string[]
  /** Begins to count, to evict and to save. */
  start(): void
  /** Restores the chain that was served last, while no upstream responds. */
  restoreChain(): Promise<void>
  /** Saves the generation; resolves once a purge of everything is durable, and rejects if the disk fails. */
  sync(): Promise<void>
  /** Saves all, after the tier has been closed, and gives the folder up. */
  stop(): Promise<void>
}

const bytesPerGb = 1024 ** 3
const syncEveryMs = 500

/** Builds the disk tier in an open folder, and what keeps it true. */
export function diskBackendOf (
  folder: OpenFolder,
  maxGb: number,
  { tracker, generations, metrics, inFlight, now, isAlone }: DiskBackendOptions
): DiskBackend {
  const { path } = folder
  const wallClockMs = (): number => performance.timeOrigin + now()
  const keeper = new DiskKeeper({
    path,
    maxBytes: maxGb * bytesPerGb,
    knownSize: folder.knownSize,
    evicted: () => {
      metrics.evicted('disk')
    },
    onError: () => {
      metrics.diskFailed('scan')
    }
  })
  const proof = new ProvenSpace(folder.registry, tracker, generations, isAlone)
  const tier = new DiskTier({
    files: new DiskFiles({
      path,
      wallClockMs,
      onError: operation => {
        metrics.diskFailed(operation)
      }
    }),
    room: keeper,
    metrics,
    holdQueued: buffer => inFlight.holdQueued(buffer),
    now,
    wallClockMs,
    space: () => proof.space,
    renewSpace: async () => {
      await proof.renew()
    }
  })
  const saver = new DiskSaver(path, proof, tier, keeper, metrics, now)
  const work: { counting?: Promise<void> } = {}
  return {
    tier,
    warnings: () => [
      ...(saver.error === undefined ? [] : [`disk rejects the state of the chain: ${saver.error}`]),
      ...(tracker.chain !== undefined && proof.space === undefined
        ? ['disk tier not read: no upstream has proven yet that its entries are of this chain']
        : [])
    ],
    start: () => {
      work.counting = keeper.count()
      saver.start()
    },
    restoreChain: async () => {
      if (tracker.chain === undefined) await proof.restoreChain()
    },
    sync: async () => {
      await saver.sync()
    },
    stop: async () => {
      await keeper.close()
      await work.counting
      await saver.stop()
      await folder.lock.close()
    }
  }
}

/** Saves the chain and the size of the tier twice a second, where they changed. */
class DiskSaver {
  readonly #path: string
  readonly #proof: ProvenSpace
  readonly #tier: DiskTier
  readonly #keeper: DiskKeeper
  readonly #metrics: Metrics
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #savedBytes: number | undefined
  #error: string | undefined

  constructor (
    path: string,
    proof: ProvenSpace,
    tier: DiskTier,
    keeper: DiskKeeper,
    metrics: Metrics,
    now: () => number
  ) {
    this.#path = path
    this.#proof = proof
    this.#tier = tier
    this.#keeper = keeper
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
    this.#proof.saveAtNextSync()
    await this.sync().catch(() => {})
  }

  async #syncOnce (): Promise<void> {
    try {
      await this.#proof.sync(this.#now())
      await this.#saveSize()
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

  async #saveSize (): Promise<void> {
    const { size } = this.#keeper
    if (size === undefined || size.bytes === this.#savedBytes) return
    const temporary = join(this.#path, 'tmp', 'size')
    await writeFile(temporary, encodeWithChecksum(size))
    await rename(temporary, join(this.#path, 'size'))
    this.#savedBytes = size.bytes
  }
}

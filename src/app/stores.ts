import { type LowerStore } from '../cache/tier.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type WriteBudget } from '../cache/write-queue.js'
import { type Spaces } from '../chain/spaces.js'
import { type Tracker } from '../chain/tracker.js'
import { type Metrics } from '../metrics/metrics.js'
import { type HostLog } from '../peers/ipc-log.js'
import { withTimeout } from '../with-timeout.js'

/** Tier below memory with what keeps it true; the program loops over a list of these. */
export interface StoreBackend {
  readonly store: LowerStore
  /** Problems beside those of the tier, as readable sentences. */
  warnings(): readonly string[]
  /**
   * Opens what the tier needs; resolves once it can be read, or after a time limit. `onUp` runs whenever a shared tier
   * can be reached.
   */
  start(onUp: () => Promise<void>): Promise<void>
  /** Gives everything up, after the tier has been closed. */
  stop(): Promise<void>
}

/** Parts that the disk tier needs. */
export interface DiskBackendOptions {
  readonly maxEntryBytes: number
  readonly tracker: Tracker
  readonly spaces: Spaces
  readonly metrics: Metrics
  readonly inFlight: WriteBudget
  readonly now: () => number
}

const resumeEveryMs = 500
// A larger folder is read on beside the reads of clients.
const maxLoadMs = 3000

/** Builds the disk tier on the log of this host, and what keeps it true. */
export function diskBackendOf (log: HostLog, options: DiskBackendOptions): StoreBackend & { readonly store: DiskTier } {
  const { settings, place } = log
  const { tracker, spaces, now } = options
  const store = new DiskTier({
    ...options,
    ...settings,
    keeperFor: member => log.keeperFor(member),
    wallClockMs: () => performance.timeOrigin + now(),
    space: () => spaces.isIn(place) ? tracker.space : undefined
  })
  const timers: NodeJS.Timeout[] = []
  const running: { resume?: Promise<void> | undefined } = {}
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
          // The tier counts failures, and repeats.
          running.resume ??= store.resume().catch(() => {}).finally(() => {
            running.resume = undefined
          })
        }, resumeEveryMs).unref()
      )
      await withTimeout(maxLoadMs, store.load())
    },
    stop: async () => {
      timers.forEach(clearInterval)
      await log.close()
    }
  }
}

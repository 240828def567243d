import { type LowerStore } from '../cache/tier.js'
import { type WriteBudget } from '../cache/write-queue.js'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { type RecordedSpaces } from '../peers/recorded-spaces.js'
import { type Chain } from './chain.js'

/** Tier below memory with the parts that keep its entries right; the program loops over a list of these. */
export interface StoreBackend {
  readonly store: LowerStore
  /** Problems that the state of the tier does not name, as readable sentences. */
  warnings(): readonly string[]
  /**
   * Opens what the tier needs; resolves once the tier can be read, or after a time limit. `onUp` runs whenever a shared
   * tier can be reached.
   */
  start(onUp: () => Promise<void>): Promise<void>
  /** Releases everything else, after the tier has been closed. */
  stop(): Promise<void>
}

/** Parts that keep the entries of a tier right. */
export interface BackendParts extends Pick<Chain, 'tracker' | 'spaces' | 'now'> {
  readonly config: Config
  readonly metrics: Metrics
  readonly inFlight: WriteBudget
  /** Spaces that are recorded beside the tier. */
  readonly place: RecordedSpaces
}

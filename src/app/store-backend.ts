import { type LowerStore } from '../cache/tier.js'
import { type Space } from '../chain/space.js'
import { type PurgedRead } from '../peers/purges.js'

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

/** Tier that hosts share, and what reaches all of them through it. */
export interface SharedBackend extends StoreBackend {
  /**
   * Purges a read on every host; resolves with false while some are still to be notified. `onFound` reports that this
   * process or the tier had any of it.
   */
  purge(space: Space, purge: PurgedRead, onFound?: () => void): Promise<boolean>
}

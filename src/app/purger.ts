import { type Invalidation } from '../cache/invalidation.js'
import { type LowerTier } from '../cache/tier.js'
import { type ChainGeneration, type Tracker } from '../chain/tracker.js'
import { invalidationOfRead, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { readPurge } from '../api/purge-request.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { type Generations } from '../chain/generations.js'
import { type PurgeResult } from '../http/purge-route.js'

/** Tier that replicas share, and what reaches all of them through it. */
export interface SharedTier {
  readonly tier: LowerTier
  /** Reads the state of the other replicas and publishes what they lack. */
  sync(): Promise<void>
  /**
   * Purges on every replica; resolves with false while some are still to be notified. `onFound` reports that this
   * process or the tier had any of it.
   */
  purge(
    chain: ChainGeneration,
    invalidationIn: (chain: ChainGeneration) => Invalidation,
    onFound?: () => void
  ): Promise<boolean>
}

/** Parts that a purge reaches. */
export interface PurgerOptions {
  readonly tracker: Tracker
  readonly generations: Generations
  readonly invalidator: LocalInvalidator
  readonly sharedTier: SharedTier | undefined
  readonly diskBackend: { readonly isShared: boolean, sync(): Promise<void> } | undefined
  /** Names the upstreams that serve another chain than the configured one. */
  readonly chainMismatch: () => string | undefined
}

/** Executes purge requests of operators. */
export interface Purger {
  /** Purges this process and all replicas. */
  purge(body: Buffer): Promise<PurgeResult>
  /** Purges this process only, after another worker has purged the shared tier; true if this process had any of it. */
  purgeLocally(body: Buffer): Promise<boolean>
}

/** Builds the purger of one process. */
export function buildPurger (
  { tracker, generations, invalidator, sharedTier, diskBackend, chainMismatch }: PurgerOptions
): Purger {
  return {
    purge: async body => {
      const purge = readPurge(body)
      const { chain } = tracker
      if (chain === undefined) {
        throw unavailableError(chainMismatch() ?? 'no upstream has been reached yet, so the chain is unknown')
      }
      if (purge.all) {
        generations.startNewGeneration()
        const everywhere = await Promise.all([sharedTier?.sync(), diskBackend?.sync()]).then(
          () => generations.isAgreed,
          () => false
        )
        // Other replicas may start generations while the shared tier is down, so this number is left out.
        return { everywhere, ...(everywhere && { generation: tracker.generation }) }
      }
      const invalidationFor = (on: ChainGeneration): Invalidation => invalidationOfRead(purge.read, on)
      let isFound = false
      const purged = sharedTier !== undefined
        ? sharedTier.purge(chain, invalidationFor, () => {
          isFound = true
        })
        : invalidator.invalidate(invalidationFor(chain)).then(hadAny => {
          isFound = hadAny
          return true
        })
      const everywhere = await purged.catch((error: unknown) => {
        if (error instanceof ErrorResponse) throw error
        // The disk repeats an invalidation that failed, and is not read before it succeeds.
        return false
      })
      // A tier that did not confirm may have had it.
      return { everywhere, ...(everywhere && !isFound && { stored: false }) }
    },
    purgeLocally: async body => {
      const purge = readPurge(body)
      const { chain } = tracker
      if (purge.all) {
        await invalidator.invalidateAll()
        // Follows the generation that the first worker has started and recorded where all see it.
        if (sharedTier === undefined && diskBackend?.isShared !== true) generations.startNewGeneration()
        else await Promise.all([sharedTier?.sync(), diskBackend?.sync()])
        return true
      }
      return chain !== undefined && await invalidator.invalidate(invalidationOfRead(purge.read, chain))
    }
  }
}

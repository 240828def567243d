import { type Invalidation } from '../cache/invalidation.js'
import { type LowerTier } from '../cache/tier.js'
import { type Space } from '../chain/space.js'
import { type Tracker } from '../chain/tracker.js'
import { invalidationOfRead, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { encodePurgeRequest, readPurge } from '../api/purge-request.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { type Spaces } from '../chain/spaces.js'
import { type PurgeResult } from '../http/admin-app.js'

/** Tier that replicas share, and what reaches all of them through it. */
export interface SharedTier {
  readonly tier: LowerTier
  /**
   * Purges a read, in the form of the purge route, on every replica; resolves with false while some are still to be
   * notified. `onFound` reports that this process or the tier had any of it.
   */
  purge(space: Space, request: string, onFound?: () => void): Promise<boolean>
}

/** Parts that a purge reaches. */
export interface PurgerOptions {
  readonly tracker: Tracker
  readonly spaces: Spaces
  readonly invalidator: LocalInvalidator
  readonly sharedTier: SharedTier | undefined
  /** True if other processes find the space of a purge of everything where all share it. */
  readonly isSpaceShared: boolean
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

// A busy worker has this long to find the space of another before it begins one too.
const maxFollowMs = 2000

/** Builds the purger of one process. */
export function buildPurger (
  { tracker, spaces, invalidator, sharedTier, isSpaceShared, chainMismatch }: PurgerOptions
): Purger {
  return {
    purge: async body => {
      const purge = readPurge(body)
      const { space } = tracker
      if (space === undefined) {
        throw unavailableError(chainMismatch() ?? 'no upstream has been reached yet, so the chain is unknown')
      }
      if (purge.all) {
        const everywhere = await spaces.replaceAll()
        // Another process may replace everything too while a place is down, so this name is left out.
        return { everywhere, ...(everywhere && { space: tracker.space?.name }) }
      }
      let isFound = false
      const purged = sharedTier !== undefined
        ? sharedTier.purge(space, encodePurgeRequest(purge.read).toString(), () => {
          isFound = true
        })
        : invalidator.invalidate(invalidationOfRead(purge.read, space)).then(hadAny => {
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
      const { space } = tracker
      if (purge.all) {
        // Follows the space that the first worker has begun and recorded where all see it.
        if (isSpaceShared) await spaces.settle(maxFollowMs)
        if (tracker.space === space) await spaces.replaceAll()
        return true
      }
      return space !== undefined && await invalidator.invalidate(invalidationOfRead(purge.read, space))
    }
  }
}

/** Returns what may be stored in a space for a purged read; undefined if the request is of another form. */
export function invalidationOfPurge (request: string, space: Space): Invalidation | undefined {
  try {
    const purge = readPurge(Buffer.from(request))
    return purge.all ? undefined : invalidationOfRead(purge.read, space)
  } catch {
    return undefined
  }
}

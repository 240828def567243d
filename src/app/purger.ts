import { randomUUID } from 'node:crypto'
import { type Invalidation } from '../cache/invalidation.js'
import { type Space } from '../chain/space.js'
import { type Tracker } from '../chain/tracker.js'
import { invalidationOfRead, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { encodePurgeRequest, readPurge } from '../api/purge-request.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { type Spaces } from '../chain/spaces.js'
import { type PurgeResult } from '../http/admin-app.js'
import { withTimeout } from '../with-timeout.js'
import { type SharedBackend } from './store-backend.js'

/** Parts that a purge reaches. */
export interface PurgerOptions {
  readonly tracker: Tracker
  readonly spaces: Spaces
  readonly invalidator: LocalInvalidator
  readonly shared: SharedBackend | undefined
  /** Reads what peers share, and applies it here. */
  readonly sync: () => Promise<void>
  /** Names the upstreams that serve another chain than the configured one. */
  readonly chainMismatch: () => string | undefined
}

/** Executes purge requests of operators. */
export interface Purger {
  /** Purges this process and all hosts; the processes of one host give the same purge one id. */
  purge(body: Buffer, id?: string): Promise<PurgeResult>
  /**
   * Purges the memory of this process only, after another one has purged the shared tiers, or has begun a space for a
   * purge of everything; true if this process had any of it.
   */
  purgeLocally(body: Buffer, begun?: string): Promise<boolean>
}

// A busy process has this long to find the space of another before it begins one too.
const maxFollowMs = 2000

/** Builds the purger of one process. */
export function buildPurger (
  { tracker, spaces, invalidator, shared, sync, chainMismatch }: PurgerOptions
): Purger {
  // Earlier purges of reads apply in a new space too, before a client fills it.
  const applyEarlier = async (): Promise<void> => {
    await withTimeout(maxFollowMs, sync()).catch(() => {})
  }
  return {
    purge: async (body, id = randomUUID()) => {
      const purge = readPurge(body)
      const { space } = tracker
      if (space === undefined) {
        throw unavailableError(chainMismatch() ?? 'no upstream has been reached yet, so the chain is unknown')
      }
      if (purge.all) {
        const everywhere = await spaces.replaceAll()
        await applyEarlier()
        return { everywhere, space: tracker.space?.name }
      }
      let isFound = false
      const purged = shared !== undefined
        ? shared.purge(space, { id, request: encodePurgeRequest(purge.read).toString() }, () => {
          isFound = true
        })
        : invalidator.invalidate(space, invalidationOfRead(purge.read, space)).then(hadAny => {
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
    purgeLocally: async (body, begun) => {
      const purge = readPurge(body)
      const { space } = tracker
      if (purge.all) {
        const isFollowing = (): boolean => tracker.space !== space || space?.name === begun
        if (!isFollowing()) await spaces.settle(maxFollowMs)
        if (!isFollowing()) await spaces.replaceAll()
        await applyEarlier()
        return true
      }
      return space !== undefined && invalidator.invalidateMemory(space, invalidationOfRead(purge.read, space))
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

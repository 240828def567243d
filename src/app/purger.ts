import { randomUUID, createHash } from 'node:crypto'
import { type Logger } from 'pino'
import { type Invalidation } from '../cache/invalidation.js'
import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type Space } from '../chain/space.js'
import { invalidationOfRead, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { encodePurge, encodePurgeRequest, type PartialPurge, readPurge } from '../api/purge-request.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { type PurgeResult } from '../http/admin-app.js'
import { withTimeout } from '../with-timeout.js'
import { type LowerStore } from '../cache/tier.js'
import { type PeerSync } from '../peers/peer-sync.js'
import { type Purges } from '../peers/purges.js'
import { type AuditDifference } from '../proxy/audit.js'
import { type Read, targetOf } from '../api/read.js'
import { type Chain } from './chain.js'
import { logRateLimit } from './log.js'

/** Parts that a purge reaches. */
export interface PurgerParts extends Pick<Chain, 'tracker' | 'spaces' | 'upstreamPool'> {
  readonly invalidator: LocalInvalidator
  /** Tier that hosts share, whose purges reach all of them; undefined without Redis. */
  readonly redisBackend: (Pick<Purges, 'purge'> & { readonly store: Pick<LowerStore, 'drop'> }) | undefined
  readonly peerSync: Pick<PeerSync, 'sync'>
}

/** Executes purge requests of operators. */
export interface Purger {
  /** Purges this process and all hosts; the processes of one host give the same purge one id. */
  purge(body: Buffer, id?: string): Promise<PurgeResult>
  /**
   * Purges the memory of this process only, after another one has purged the shared tiers, or has begun a space for a
   * purge of everything. Resolves with true if this process had any entry of the purge.
   */
  purgeLocally(body: Buffer, begun?: string): Promise<boolean>
}

// Gives a busy process time to find the space that another process has begun, before it begins one too.
const maxFollowMs = 2000

/** Builds the purger of one process. */
export function buildPurger (
  { tracker, spaces, upstreamPool, invalidator, redisBackend, peerSync }: PurgerParts
): Purger {
  // Earlier purges of reads apply in a new space too, before a client fills it.
  const applyEarlier = async (): Promise<void> => await withTimeout(maxFollowMs, peerSync.sync()).catch(() => {})
  return {
    purge: async (body, id = randomUUID()) => {
      const purge = readPurge(body)
      const { space } = tracker
      if (space === undefined) {
        const mismatch = describeChainMismatch(upstreamPool.upstreams, tracker)
        throw unavailableError(mismatch ?? 'no upstream has been reached yet, so the chain is unknown')
      }
      if (purge.all) {
        const everywhere = await spaces.replaceAll()
        await applyEarlier()
        return { everywhere, space: tracker.space?.name }
      }
      let isFound = false
      const purged = redisBackend !== undefined
        ? redisBackend.purge(space, { id, request: encodePurge(purge).toString() }, () => {
          isFound = true
        })
        : invalidator.invalidate(space, invalidationOf(purge, space)).then(hadAny => {
          isFound = hadAny
          return true
        })
      const everywhere = await purged.catch((error: unknown) => {
        if (error instanceof ErrorResponse) throw error
        // The disk repeats an invalidation that failed, and is not read before it succeeds.
        return false
      })
      // Says that nothing was stored only if every tier has confirmed: another tier may have had the entry.
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
      return space !== undefined && invalidator.invalidateMemory(space, invalidationOf(purge, space))
    }
  }
}

function invalidationOf (purge: PartialPurge, space: Space): Invalidation {
  return purge.account === undefined
    ? invalidationOfRead(purge.read, space)
    : { keys: [], intervals: [], account: purge.account }
}

/**
 * Returns the invalidation of a purge in a space; undefined for a purge of everything, and for a request of another
 * form.
 */
export function invalidationOfPurge (request: string, space: Space): Invalidation | undefined {
  try {
    const purge = readPurge(Buffer.from(request))
    return purge.all ? undefined : invalidationOf(purge, space)
  } catch {
    return undefined
  }
}

/** Receivers of an audit's findings. */
export interface AuditParts extends Pick<PurgerParts, 'invalidator' | 'redisBackend'> {
  /** Purges a wrong entry in the other processes of this varve too. */
  readonly purgeOthers: (body: Buffer) => void
  readonly log: Logger
  readonly now: () => number
}

// Cuts long table keys; most fit, so an operator can repeat the request by hand.
const maxShownChars = 500
// Limits the log when an audit finds many differences (law 10: nothing grows without bound).
const differenceRate = { lines: 10, perMs: 1000 }

/**
 * Logs audit differences and invalidates what was served: wrong data on every replica, a changed rendering only here
 * and in lower tiers.
 */
export function auditDifferenceListener (options: AuditParts): (difference: AuditDifference) => void {
  const { purgeOthers, log } = options
  const mayLog = logRateLimit(options.now, differenceRate)
  return difference => {
    const { result, reads } = difference
    const suppressed = mayLog()
    if (suppressed !== undefined) logDifference(suppressed === 0 ? log : log.child({ suppressed }), difference)
    for (const read of difference.isObserved ? [] : reads) {
      invalidate(options, difference, read).then(() => {
        // Purges other processes last, or they could read the wrong entry from a lower tier again.
        if (result === 'different') purgeOthers(encodePurgeRequest(read))
      }, () => {})
    }
  }
}

async function invalidate (
  { invalidator, redisBackend, log }: AuditParts,
  { result, space }: AuditDifference,
  read: Read
): Promise<void> {
  const invalidation = invalidationOfRead(read, space)
  try {
    await Promise.all([
      invalidator.invalidate(space, invalidation),
      // The purge log is bounded, so changed renderings, which are harmless, stay out of it (law 8: rendering can
      // change, history cannot).
      result === 'different'
        ? redisBackend?.purge(space, { id: randomUUID(), request: encodePurgeRequest(read).toString() })
        : redisBackend?.store.drop(space, invalidation)
    ])
  } catch (error) {
    if (result === 'different') {
      log.error(
        { reason: (error as Error).message },
        'invalidation in a lower tier failed: purge everything when the tier is up'
      )
    }
  }
}

function logDifference (
  log: Logger,
  { result, isObserved, reads: [read], part, cause, upstream, cached, fetched }: AuditDifference
): void {
  const fields = {
    ...(read !== undefined && describeRead(read)),
    upstream,
    part,
    ...(cause !== undefined && { cause }),
    cached: digestOf(cached),
    fetched: digestOf(fetched)
  }
  const message = isObserved
    ? 'following would have served another response'
    : result === 'different'
    ? 'cached response differs from the upstream: invalidated everywhere'
    : 'cached response differs in rendering: invalidated here and in lower tiers'
  if (result === 'different') log.error(fields, message)
  else log.warn(fields, message)
}

function describeRead (read: Read): object {
  return {
    endpoint: read.endpoint.name,
    target: targetOf(read),
    body: read.body?.sent.slice(0, maxShownChars),
    accept: read.accept
  }
}

function digestOf (body: Buffer): string {
  return `sha256:${createHash('sha256').update(body).digest('hex')}`
}

import { type Tracker } from '../chain/tracker.js'
import { invalidationOf, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { readPurge } from '../api/purge-request.js'
import { unavailableError } from '../api/error-response.js'
import { type Generations } from '../chain/generations.js'
import { type PurgeResult } from '../http/purge-route.js'
import { type RedisBackend } from './redis-backend.js'

/** Parts that a purge reaches. */
export interface PurgerOptions {
  readonly tracker: Tracker
  readonly generations: Generations
  readonly invalidator: LocalInvalidator
  readonly redisBackend: RedisBackend | undefined
  readonly eventsDefault: () => number
  /** Names the upstreams that serve another chain than the configured one. */
  readonly chainMismatch: () => string | undefined
}

/** Executes purge requests of operators. */
export interface Purger {
  /** Purges this process and all replicas. */
  purge(body: Buffer): Promise<PurgeResult>
  /** Purges this process only; another worker has already purged Redis. */
  purgeLocally(body: Buffer): Promise<void>
}

/** Builds the purger of one process. */
export function buildPurger (
  { tracker, generations, invalidator, redisBackend, eventsDefault, chainMismatch }: PurgerOptions
): Purger {
  return {
    purge: async body => {
      const purge = readPurge(body, { eventsDefault: eventsDefault() })
      const { chain } = tracker
      if (chain === undefined) {
        throw unavailableError(chainMismatch() ?? 'no upstream has been reached yet, so the chain is unknown')
      }
      if (purge.all) {
        generations.startNewGeneration()
        const everywhere = await redisBackend?.sync().then(() => generations.isAgreed, () => false) ?? true
        // Other replicas may start generations while Redis is down, so this number is not final and is left out.
        return { everywhere, ...(everywhere && { generation: tracker.generation }) }
      }
      const invalidationFor = invalidator.invalidationOf(purge.read, chain)
      if (redisBackend !== undefined) return { everywhere: await redisBackend.purge(chain, invalidationFor) }
      invalidator.invalidate(invalidationFor(chain))
      return { everywhere: true }
    },
    purgeLocally: async body => {
      const purge = readPurge(body, { eventsDefault: eventsDefault() })
      const { chain } = tracker
      if (purge.all) {
        invalidator.invalidateAll()
        if (redisBackend === undefined) generations.startNewGeneration()
        else await redisBackend.sync()
      } else if (chain !== undefined) invalidator.invalidate(invalidationOf(purge.read, chain))
    }
  }
}

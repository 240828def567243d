import { type Tracker } from '../chain/tracker.js'
import { everythingOf, type Forgetting } from '../proxy/forgetting.js'
import { readPurge } from '../api/purge-request.js'
import { unavailable } from '../api/refusal.js'
import { type Generations } from '../chain/generations.js'
import { type Purged } from '../http/purge-route.js'
import { type Sharing } from './sharing.js'

/** What a purge reaches. */
export interface PurgerParts {
  readonly tracker: Tracker
  readonly generations: Generations
  readonly forgetting: Forgetting
  readonly sharing: Sharing | undefined
  readonly eventsDefault: () => number
  /** Names the upstreams that serve another chain than the configured one. */
  readonly chainMismatch: () => string | undefined
}

/** Does what an operator wants purged. */
export interface Purger {
  /** Here and on every replica. */
  purge(body: Buffer): Promise<Purged>
  /** Here alone: another process of this varve has done it for what replicas share. */
  follow(body: Buffer): Promise<void>
}

/** Builds what purges. */
export function purgerOf (
  { tracker, generations, forgetting, sharing, eventsDefault, chainMismatch }: PurgerParts
): Purger {
  return {
    purge: async body => {
      const wanted = readPurge(body, { eventsDefault: eventsDefault() })
      const { chain } = tracker
      if (chain === undefined) {
        throw unavailable(chainMismatch() ?? 'no node has been reached yet, so the chain is not known')
      }
      if (wanted.all) {
        generations.startAfresh()
        const everywhere = await sharing?.look().then(() => generations.isAgreed, () => false) ?? true
        // While Redis is away others may begin generations, and this one will then be above theirs.
        return { everywhere, ...(everywhere && { generation: tracker.generation }) }
      }
      const whatOf = forgetting.everythingOf(wanted.read, chain)
      if (sharing !== undefined) return { everywhere: await sharing.purge(chain, whatOf) }
      forgetting.forget(whatOf(chain))
      return { everywhere: true }
    },
    follow: async body => {
      const wanted = readPurge(body, { eventsDefault: eventsDefault() })
      const { chain } = tracker
      if (wanted.all) {
        forgetting.forgetAll()
        if (sharing === undefined) generations.startAfresh()
        else await sharing.look()
      } else if (chain !== undefined) forgetting.forget(everythingOf(wanted.read, chain))
    }
  }
}

import { randomUUID } from 'node:crypto'
import { type SharedStore, type ToForget } from '../cache/shared-store.js'
import { type Chain } from '../chain/tracker.js'
import { unavailable } from '../api/refusal.js'
import { maxPurges, type PurgeLog } from './purge-log.js'
import { type Purge } from '../chain/words.js'

// Each is kept until Redis can be told.
const maxPending = 256

/** Who forgets on this replica's side. */
export interface Forgetful {
  forget(what: ToForget): void
  forgetAll(): void
}

/** What purging needs. */
export interface PurgeOptions {
  readonly store: SharedStore
  readonly log: PurgeLog
  readonly local: Forgetful
  /** The chain and generation that are agreed on with the other replicas; undefined while they are not. */
  readonly chain: () => Chain | undefined
  /** Tells the other replicas to look. */
  readonly tell: (chainId: number) => Promise<void>
}

/**
 * A purge that Redis has not been told of yet; which keys it means depends on the generation that is agreed on then.
 */
interface Pending {
  readonly id: string
  readonly whatIn: (chain: Chain) => ToForget
  /**
   * What that is in a generation, with all that Redis knew of it: nobody may know that any more once some of it is
   * forgotten.
   */
  named?: { readonly generation: number, readonly what: ToForget }
}

/**
 * Has every replica forget what one was told to: by a message, and by a log that is read regularly where the message
 * was lost.
 */
export class Purges {
  readonly #options: PurgeOptions
  readonly #pending: Pending[] = []
  #telling: Promise<void> | undefined
  // As many as the log holds, the newest first; undefined before the first look.
  #known: readonly Purge[] | undefined

  constructor (options: PurgeOptions) {
    this.#options = options
  }

  /** Whether Redis still has what was to be forgotten. */
  get hasPending (): boolean {
    return this.#pending.length > 0
  }

  /** Forgets here at once and everywhere as soon as Redis can be told; whether it could now. */
  async purge (chain: Chain, whatIn: (chain: Chain) => ToForget): Promise<boolean> {
    if (this.#pending.length >= maxPending) {
      throw unavailable('too many purges wait for Redis: purge everything, or come again when it answers')
    }
    this.#forget(whatIn(chain))
    const purge = { id: randomUUID(), whatIn }
    this.#pending.push(purge)
    await this.deliver().catch(() => {})
    return !this.#pending.includes(purge)
  }

  /**
   * Tells Redis of what it has not been told yet, as soon as it is agreed under which keys that stands; fails where it
   * cannot be told.
   */
  async deliver (): Promise<void> {
    for (let next = this.#pending[0]; next !== undefined; next = this.#pending[0]) {
      const chain = this.#options.chain()
      if (chain === undefined) return
      // One at a time, whoever asks for it: else each of many would tell of all of them.
      this.#telling ??= this.#tell(next, chain).finally(() => {
        this.#telling = undefined
      })
      await this.#telling
    }
  }

  /** Forgets what other replicas purged since the last look, and tells again what the log has lost. */
  async look (chainId: number): Promise<void> {
    const { log, store, local } = this.#options
    const before = this.#known
    const { purges, isFull } = await log.read(chainId)
    // One of its own may have been told of meanwhile.
    const unknown = without(purges, this.#known)
    this.#know(unknown)
    if (isFull && unknown.length === purges.length) {
      // There may have been more than the log holds.
      local.forgetAll()
      store.dropAll()
    }
    for (const purge of [...unknown].reverse()) this.#forget(purge)
    // What was being written here while another replica had it deleted may have come after that; a failure is counted
    // by the link.
    if (before !== undefined) {
      await Promise.allSettled(unknown.map(async purge => {
        await store.forgetOwn(purge)
      }))
    }
    const lost = isFull ? [] : without(before ?? [], purges)
    if (lost.length > 0) await log.restore(chainId, lost)
  }

  async #tell (pending: Pending, chain: Chain): Promise<void> {
    const { log, store, tell } = this.#options
    if (pending.named?.generation !== chain.generation) {
      const what = pending.whatIn(chain)
      pending.named = { generation: chain.generation, what: await store.named(what) }
      if (pending.named.what !== what) this.#forget(pending.named.what)
    }
    const purge = { id: pending.id, ...pending.named.what }
    await store.forget(purge)
    await log.add(chain.id, purge)
    this.#pending.shift()
    this.#know([purge])
    await tell(chain.id).catch(() => {})
  }

  #forget (what: ToForget): void {
    this.#options.local.forget(what)
    this.#options.store.drop(what)
  }

  #know (purges: readonly Purge[]): void {
    this.#known = [...purges, ...this.#known ?? []].slice(0, maxPurges)
  }
}

function without (purges: readonly Purge[], others: readonly Purge[] = []): Purge[] {
  const ids = new Set(others.map(({ id }) => id))
  return purges.filter(({ id }) => !ids.has(id))
}

import { randomUUID } from 'node:crypto'
import { type Invalidation } from '../cache/invalidation.js'
import { type RedisTier } from '../cache/redis-tier.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { unavailableError } from '../api/error-response.js'
import { type ReplicaAgreement, type UndeliveredPurge } from './replica-agreement.js'
import { maxPurges, type PurgeLog } from './purge-log.js'
import { type Purge } from './replica-messages.js'

// Each purge waits in memory until Redis responds.
const maxUndeliveredPurges = 256

/** Removes entries from the tiers that no other replica shares; resolves when no later process finds them. */
export interface PurgeableTiers {
  invalidate(invalidation: Invalidation): Promise<boolean>
  invalidateAll(): Promise<void>
}

/** Parts that purging needs. */
export interface PurgeOptions {
  readonly store: RedisTier
  readonly log: PurgeLog
  readonly local: PurgeableTiers
  readonly agreement: ReplicaAgreement
  /** Notifies the other replicas to read the log. */
  readonly notifyReplicas: (chainId: number) => Promise<void>
}

/**
 * Purges entries on every replica: by a message, and by a log that replicas read regularly in case the message is lost.
 */
export class Purges {
  readonly #options: PurgeOptions
  readonly #undelivered: UndeliveredPurge[]
  #delivering: Promise<void> | undefined
  // Newest first, at most `maxPurges`; undefined before the first sync.
  #known: readonly Purge[] | undefined

  constructor (options: PurgeOptions) {
    this.#options = options
    this.#undelivered = options.agreement.undeliveredPurges
  }

  /** True while Redis may still store purged entries. */
  get hasPending (): boolean {
    return this.#undelivered.length > 0
  }

  /**
   * Purges here at once, and everywhere when Redis responds; returns true if Redis has it already. `onFound` reports
   * that this process or Redis had any of it.
   */
  async purge (
    chain: ChainGeneration,
    invalidationIn: (chain: ChainGeneration) => Invalidation,
    onFound = (): void => {}
  ): Promise<boolean> {
    if (this.#undelivered.length >= maxUndeliveredPurges) {
      throw unavailableError('too many purges are waiting for Redis: retry when Redis is up, or purge everything')
    }
    const purge = { id: randomUUID(), invalidationIn, onFound }
    this.#undelivered.push(purge)
    const [hadAny] = await Promise.all([this.#invalidate(invalidationIn(chain)), this.deliver().catch(() => {})])
    if (hadAny) onFound()
    return !this.#undelivered.includes(purge)
  }

  /** Writes undelivered purges to Redis once the generation is confirmed; rejects when Redis fails. */
  async deliver (): Promise<void> {
    for (let next = this.#undelivered[0]; next !== undefined; next = this.#undelivered[0]) {
      const { chain } = this.#options.agreement
      if (chain === undefined) return
      // Concurrent callers share one delivery, so no purge is written twice.
      this.#delivering ??= this.#deliverOne(next, chain).finally(() => {
        this.#delivering = undefined
      })
      await this.#delivering
    }
  }

  /** Applies purges of other replicas since the last sync, and restores those that the log has lost. */
  async sync (chainId: number): Promise<void> {
    const { log, store, local } = this.#options
    const before = this.#known
    const { purges, mayBeTrimmed: isFull } = await log.read(chainId)
    // Excludes own purges: one delivered while the log was read is known, one still being delivered is listed.
    const newPurges = exclude(purges, [...this.#known ?? [], ...this.#undelivered])
    this.#addKnown(newPurges)
    const invalidated: Array<Promise<unknown>> = []
    if (isFull && newPurges.length === purges.length) {
      // All entries are unknown, so the log may have trimmed others.
      invalidated.push(local.invalidateAll())
      store.dropPending()
    }
    for (const purge of [...newPurges].reverse()) invalidated.push(this.#invalidate(purge))
    // A write of ours may have followed another replica's delete, so this replica deletes again.
    if (before !== undefined) invalidated.push(...newPurges.map(async purge => await store.invalidateOwnWrites(purge)))
    // Each tier counts its own failures.
    await Promise.allSettled(invalidated)
    const lost = isFull ? [] : exclude(before ?? [], purges)
    if (lost.length > 0) await log.restore(chainId, lost)
  }

  async #deliverOne (undelivered: UndeliveredPurge, chain: ChainGeneration): Promise<void> {
    const { log, store, notifyReplicas } = this.#options
    const purge = { id: undelivered.id, ...undelivered.invalidationIn(chain) }
    if (await store.invalidate(purge)) undelivered.onFound()
    await log.add(chain.id, purge)
    this.#undelivered.shift()
    this.#addKnown([purge])
    await notifyReplicas(chain.id).catch(() => {})
  }

  async #invalidate (invalidation: Invalidation): Promise<boolean> {
    const hadQueued = this.#options.store.dropQueued(invalidation)
    return await this.#options.local.invalidate(invalidation) || hadQueued
  }

  #addKnown (purges: readonly Purge[]): void {
    this.#known = [...purges, ...this.#known ?? []].slice(0, maxPurges)
  }
}

function exclude (purges: readonly Purge[], others: ReadonlyArray<Pick<Purge, 'id'>>): Purge[] {
  const ids = new Set(others.map(({ id }) => id))
  return purges.filter(({ id }) => !ids.has(id))
}

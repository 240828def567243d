import { randomUUID } from 'node:crypto'
import { type RedisTier, type Invalidation } from '../cache/redis-tier.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { unavailableError } from '../api/error-response.js'
import { type Agreement, type PendingPurge } from './agreement.js'
import { maxPurges, type PurgeLog } from './purge-log.js'
import { type Purge } from './replica-records.js'

// Each purge waits in memory until Redis responds.
const maxPendingPurges = 256

/** Removes entries from this process's tiers. */
export interface PurgeTarget {
  invalidate(invalidation: Invalidation): void
  invalidateAll(): void
}

/** Parts that purging needs. */
export interface PurgeOptions {
  readonly store: RedisTier
  readonly log: PurgeLog
  readonly local: PurgeTarget
  readonly agreement: Agreement
  /** Notifies the other replicas to read the log. */
  readonly notifyReplicas: (chainId: number) => Promise<void>
}

/**
 * Purges entries on every replica: by a message, and by a log that replicas read regularly in case the message is lost.
 */
export class Purges {
  readonly #options: PurgeOptions
  readonly #pending: PendingPurge[]
  #delivering: Promise<void> | undefined
  // Newest first, at most `maxPurges`; undefined before the first sync.
  #known: readonly Purge[] | undefined

  constructor (options: PurgeOptions) {
    this.#options = options
    this.#pending = options.agreement.pendingPurges
  }

  /** True while Redis may still store purged entries. */
  get hasPending (): boolean {
    return this.#pending.length > 0
  }

  /** Purges here at once, and everywhere when Redis responds; returns true if Redis has it already. */
  async purge (chain: ChainGeneration, invalidationIn: (chain: ChainGeneration) => Invalidation): Promise<boolean> {
    if (this.#pending.length >= maxPendingPurges) {
      throw unavailableError('too many purges are waiting for Redis: retry when Redis is up, or purge everything')
    }
    this.#invalidate(invalidationIn(chain))
    const purge = { id: randomUUID(), invalidationIn }
    this.#pending.push(purge)
    await this.deliver().catch(() => {})
    return !this.#pending.includes(purge)
  }

  /** Writes pending purges to Redis once the generation is confirmed; rejects when Redis fails. */
  async deliver (): Promise<void> {
    for (let next = this.#pending[0]; next !== undefined; next = this.#pending[0]) {
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
    // A delivery may have added a purge while the log was read.
    const newPurges = exclude(purges, this.#known)
    this.#addKnown(newPurges)
    if (isFull && newPurges.length === purges.length) {
      // All entries are unknown, so the log may have trimmed others.
      local.invalidateAll()
      store.dropAllQueued()
    }
    for (const purge of [...newPurges].reverse()) this.#invalidate(purge)
    // A write of ours may have followed another replica's delete, so this replica deletes again. The Redis link counts
    // failures.
    if (before !== undefined) {
      await Promise.allSettled(newPurges.map(async purge => {
        await store.invalidateOwnWrites(purge)
      }))
    }
    const lost = isFull ? [] : exclude(before ?? [], purges)
    if (lost.length > 0) await log.restore(chainId, lost)
  }

  async #deliverOne (pending: PendingPurge, chain: ChainGeneration): Promise<void> {
    const { log, store, notifyReplicas } = this.#options
    if (pending.resolved?.generation !== chain.generation) {
      const invalidation = pending.invalidationIn(chain)
      pending.resolved = { generation: chain.generation, invalidation: await store.resolveStreams(invalidation) }
      if (pending.resolved.invalidation !== invalidation) this.#invalidate(pending.resolved.invalidation)
    }
    const purge = { id: pending.id, ...pending.resolved.invalidation }
    await store.invalidate(purge)
    await log.add(chain.id, purge)
    this.#pending.shift()
    this.#addKnown([purge])
    await notifyReplicas(chain.id).catch(() => {})
  }

  #invalidate (invalidation: Invalidation): void {
    this.#options.local.invalidate(invalidation)
    this.#options.store.dropQueued(invalidation)
  }

  #addKnown (purges: readonly Purge[]): void {
    this.#known = [...purges, ...this.#known ?? []].slice(0, maxPurges)
  }
}

function exclude (purges: readonly Purge[], others: readonly Purge[] = []): Purge[] {
  const ids = new Set(others.map(({ id }) => id))
  return purges.filter(({ id }) => !ids.has(id))
}

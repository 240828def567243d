import { type Invalidation } from '../cache/invalidation.js'
import { type RedisTier } from '../cache/redis-tier.js'
import { type Space } from '../chain/space.js'
import { unavailableError } from '../api/error-response.js'
import { parsePurges, type Purge, encodeWithChecksum } from './parse-records.js'
import { type Peers } from './peers.js'
import { changeRecord, type Records } from './records.js'

// Limits the log; a process that may have missed more purges drops its whole memory tier.
const maxPurges = 256
// Each purge waits in memory until Redis responds.
const maxUndeliveredPurges = 256

/** Removes entries from the tiers that no other process shares; resolves when no later process finds them. */
export interface PurgeableTiers {
  invalidate(space: Space, invalidation: Invalidation, id: string): Promise<boolean>
  invalidateAll(space: Space, id: string): Promise<void>
}

/** Purges that Redis does not have yet, and the space in which all others were applied. */
export class PurgeState {
  /** In order of delivery. */
  readonly undelivered: UndeliveredPurge[] = []
  appliedIn: Space | undefined

  /** True if no entry of a space in Redis can be one that was purged. */
  isAppliedIn (space: Space | undefined): boolean {
    return this.appliedIn === space && this.undelivered.length === 0
  }
}

/** Parts that purging needs. */
export interface PurgeOptions {
  readonly state: PurgeState
  readonly store: RedisTier
  /** Records that hold the log: the last purges of a chain id, newest first. */
  readonly records: Records
  readonly local: PurgeableTiers
  /** Returns what may be stored in a space for a read, in the form of the purge route; undefined if it is no read. */
  readonly invalidationOf: (request: string, space: Space) => Invalidation | undefined
  /** Returns the space if Redis has it too; undefined while Redis lacks it. */
  readonly placedSpace: () => Space | undefined
  readonly peers: Pick<Peers, 'publish'>
}

/** Purge of a read, in the form of the purge route. */
export type PurgedRead = Pick<Purge, 'id' | 'request'>

/** Purge that Redis does not have yet. */
interface UndeliveredPurge extends PurgedRead {
  /** Reports that something was found to purge. */
  readonly onFound: () => void
}

/**
 * Purges reads on every peer: by a message, and by a log that peers read regularly in case the message is lost.
 * The log names reads, so each process applies it in its own space.
 */
export class Purges {
  readonly #options: PurgeOptions
  readonly #undelivered: UndeliveredPurge[]
  #delivering: Promise<void> | undefined
  // Newest first, at most `maxPurges`; undefined before the first sync.
  #known: readonly Purge[] | undefined
  #lastDelivered = ''

  constructor (options: PurgeOptions) {
    this.#options = options
    this.#undelivered = options.state.undelivered
  }

  /** Names the last purge that this process knows, which is the same for all peers that have read the same log. */
  get last (): string {
    return this.#undelivered.at(-1)?.id ?? this.#lastDelivered
  }

  /** True while Redis may still store purged entries. */
  get hasPending (): boolean {
    return this.#undelivered.length > 0
  }

  /**
   * Purges here at once, and everywhere when Redis responds; returns true if Redis has the purge already. `onFound`
   * reports that this process or Redis had an entry of it.
   */
  async purge (space: Space, { id, request }: PurgedRead, onFound = (): void => {}): Promise<boolean> {
    if (this.#undelivered.length >= maxUndeliveredPurges) {
      throw unavailableError('too many purges are waiting for Redis: retry when Redis is up, or purge everything')
    }
    const purge = { id, request, onFound }
    this.#undelivered.push(purge)
    const [hadAny] = await Promise.all([this.#applyHere({ id, request }, space), this.deliver().catch(() => {})])
    if (hadAny) onFound()
    return !this.#undelivered.includes(purge)
  }

  /** Writes undelivered purges to Redis once it has our space; rejects when Redis fails. */
  async deliver (): Promise<void> {
    for (let next = this.#undelivered[0]; next !== undefined; next = this.#undelivered[0]) {
      const space = this.#options.placedSpace()
      if (space === undefined) return
      // Concurrent callers share one delivery, so no purge is written twice.
      this.#delivering ??= this.#deliverOne(next, space).finally(() => {
        this.#delivering = undefined
      })
      await this.#delivering
    }
  }

  /** Applies purges of other peers since the last sync, and restores purges that the log has lost. */
  async sync (space: Space): Promise<void> {
    const { state, records, store, local } = this.#options
    const before = this.#known
    const purges = parsePurges(await records.read(logNameOf(space)))
    // Peers learn purges in any order, but the log has one; a purge delivered while it was read is newer.
    if (this.#known === before) this.#lastDelivered = purges[0]?.id ?? this.#lastDelivered
    const isFull = purges.length >= maxPurges
    // Excludes own purges: a purge delivered while the log was read is known, one still being delivered is listed.
    const newPurges = exclude(purges, [...this.#known ?? [], ...this.#undelivered])
    this.#addKnown(newPurges)
    const applied: Array<Promise<unknown>> = []
    if (isFull && newPurges.length === purges.length) {
      // All entries are unknown, so the log may have trimmed others.
      applied.push(local.invalidateAll(space, `all up to ${purges[0]?.id}`))
      store.dropPending()
    }
    // Another space may still have entries that were purged while this process did not use it.
    const isNewSpace = state.appliedIn !== space
    const wanted = isNewSpace ? this.#known ?? [] : newPurges
    for (const purge of [...wanted].reverse()) applied.push(this.#apply(purge, space, before !== undefined))
    const results = await Promise.allSettled(applied)
    // Each tier counts its own failures.
    if (results.every(({ status }) => status === 'fulfilled')) state.appliedIn = space
    const lost = isFull ? [] : exclude(before ?? [], purges)
    if (lost.length > 0) await this.#changeLog(space, logged => [...logged, ...exclude(lost, logged)])
  }

  async #apply (purge: Purge, space: Space, hasWritten: boolean): Promise<void> {
    const { store, invalidationOf } = this.#options
    const { request, space: purgedIn } = purge
    const invalidation = invalidationOf(request, space)
    if (invalidation === undefined) return
    await this.#applyHere(purge, space)
    if (purgedIn !== space.name) await store.drop(space, invalidation)
    // A write of ours may have followed another peer's delete, so this process deletes again.
    else if (hasWritten) await store.invalidateOwnWrites(space, invalidation)
  }

  async #deliverOne ({ id, request, onFound }: UndeliveredPurge, space: Space): Promise<void> {
    const { store, invalidationOf, peers } = this.#options
    const purge = { id, space: space.name, request }
    const invalidation = invalidationOf(request, space)
    if (invalidation !== undefined && await store.drop(space, invalidation)) onFound()
    await this.#changeLog(space, logged => [purge, ...exclude(logged, [purge])])
    this.#undelivered.shift()
    this.#addKnown([purge])
    this.#lastDelivered = id
    peers.publish({ kind: 'changed' })
  }

  async #changeLog (space: Space, change: (logged: readonly Purge[]) => readonly Purge[]): Promise<void> {
    await changeRecord(
      this.#options.records,
      logNameOf(space),
      text => encodeWithChecksum(change(parsePurges(text)).slice(0, maxPurges))
    )
  }

  async #applyHere ({ id, request }: PurgedRead, space: Space): Promise<boolean> {
    const { store, local, invalidationOf } = this.#options
    const invalidation = invalidationOf(request, space)
    if (invalidation === undefined) return false
    const hadQueued = store.dropQueued(invalidation)
    return await local.invalidate(space, invalidation, id) || hadQueued
  }

  #addKnown (purges: readonly Purge[]): void {
    this.#known = [...purges, ...this.#known ?? []].slice(0, maxPurges)
  }
}

function logNameOf ({ chainId }: Space): string {
  return `purges ${chainId}`
}

function exclude (purges: readonly Purge[], others: ReadonlyArray<Pick<Purge, 'id'>>): Purge[] {
  const ids = new Set(others.map(({ id }) => id))
  return purges.filter(({ id }) => !ids.has(id))
}

import { type Invalidation } from '../cache/invalidation.js'
import { type RedisTier } from '../cache/redis-tier.js'
import { type Space } from '../chain/space.js'
import { unavailableError } from '../api/error-response.js'
import { parsePurges, type Purge, encodeWithChecksum } from './parse-records.js'
import { type Peers } from './peers.js'
import { changeRecord, type Records } from './records.js'

// Limits the log of purges; a process that may have missed more purges than this drops its whole memory tier.
const maxPurges = 256
// Limits the purges that wait in memory until Redis responds.
const maxUndeliveredPurges = 256

/** Removes entries from the tiers that no other process shares; resolves when no later process finds them. */
export interface PurgeableTiers {
  invalidate(space: Space, invalidation: Invalidation, id: string): Promise<boolean>
  invalidateAll(space: Space, id: string): Promise<void>
}

/** Purges that Redis does not have yet, and the space in which all other purges were applied. */
export class PurgeState {
  /** Purges in the order of delivery. */
  readonly undelivered: UndeliveredPurge[] = []
  appliedIn: Space | undefined

  /** True if no entry of this space in Redis can be a purged one. */
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

  /** Names the last purge that this process knows; peers that have read the same log name the same purge. */
  get last (): string {
    return this.#undelivered.at(-1)?.id ?? this.#lastDelivered
  }

  /** True while Redis may still store purged entries. */
  get hasPending (): boolean {
    return this.#undelivered.length > 0
  }

  /**
   * Purges here at once, and everywhere when Redis responds; returns true if Redis has the purge already. `onFound`
   * reports that this process or Redis had a purged entry.
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

  /** Writes undelivered purges to Redis, or leaves them to the next call while it lacks our space. */
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
    // Keeps a newer purge that was delivered while the log was read. Peers learn purges in any order, but the log has
    // one order.
    if (this.#known === before) this.#lastDelivered = purges[0]?.id ?? this.#lastDelivered
    const isFull = purges.length >= maxPurges
    // Excludes this process's own purges: those delivered while the log was read are known, and others are still
    // undelivered.
    const newPurges = exclude(purges, [...this.#known ?? [], ...this.#undelivered])
    this.#addKnown(newPurges)
    const applied: Array<Promise<unknown>> = []
    if (isFull && newPurges.length === purges.length) {
      // Drops everything: a full log without any known purge may have trimmed other purges.
      applied.push(local.invalidateAll(space, `all up to ${purges[0]?.id}`))
      store.dropPending()
    }
    // Applies all known purges to a new space, whose entries may be from before purges that this process did not apply
    // there.
    const isNewSpace = state.appliedIn !== space
    const wanted = isNewSpace ? this.#known ?? [] : newPurges
    for (const purge of [...wanted].reverse()) applied.push(this.#apply(purge, space, before !== undefined))
    const results = await Promise.allSettled(applied)
    // Leaves failures to the tiers, each of which counts its own.
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
    // Deletes again: a write of this process may have followed the other peer's delete.
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

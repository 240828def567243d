import { hash, randomBytes } from 'node:crypto'
import { type FetchLease, type LeaseResult } from '../cache/coalescer.js'
import { type FoundEntry } from '../cache/tier.js'
import { withTimeout } from '../with-timeout.js'

/** Place of leases: Redis for hosts, the primary process for the workers of one host. */
export interface LeasePlace {
  /** False while it is of no use. */
  readonly isUsable: boolean
  /** True if those that wait share no tier, so that entries are sent to them. */
  readonly sendsEntries: boolean
  /** Names the last purge: a fetch from before it is of no use after it. */
  readonly lastPurge: string
  /** Takes a lease, or marks that another process waits; returns true if it was taken. Rejects if that is unknown. */
  take(id: string, token: string, ms: number): Promise<boolean>
  renew(id: string, token: string, ms: number): Promise<void>
  /** Ends a lease, and notifies those that wait; `found` is the entry to send. */
  end(id: string, token: string, isStored: boolean, found: FoundEntry | undefined): Promise<void>
}

/** Parts that leases need. */
export interface FetchLeasesOptions {
  /** Places, the farthest first: the first one that is usable counts. */
  readonly places: readonly LeasePlace[]
  readonly now: () => number
  readonly leased: (result: LeaseResult) => void
}

/** End of a lease: undefined where the fetch was of no use, because of a purge. */
interface LeaseEnd {
  readonly isStored: boolean | undefined
  readonly found?: FoundEntry | undefined
}

// A holder that dies delays the reads of others by this long at most.
const leaseMs = 2000
const renewEveryMs = leaseMs / 2

// Ends the wait for a holder that takes longer than upstreams mostly may, or for a place that lies.
const maxAsked = 5
// Where messages do not arrive, and this process cannot know it, one read in this time waits for one in vain.
const unheardMs = 60_000

/**
 * Leases for fetches: of the processes that miss one read at the same time one asks an upstream, and the others take
 * what it has stored or sends. Without a place each fetches for itself (law 6: the cache can only help).
 */
export class FetchLeases {
  readonly #options: FetchLeasesOptions
  readonly #waiting = new Map<string, (end: LeaseEnd) => void>()
  readonly #held = new Set<string>()
  #unheardAtMs = -Infinity

  constructor (options: FetchLeasesOptions) {
    this.#options = options
  }

  /**
   * Takes the lease of a read, or waits until its holder has ended or is gone. Undefined where this process fetches for
   * itself: no place responds, messages do not arrive, or the fetch of the holder was of no use to others.
   */
  async take (key: string): Promise<FetchLease | undefined> {
    const { places, now, leased } = this.#options
    if (now() - this.#unheardAtMs < unheardMs) return undefined
    const token = randomBytes(12).toString('base64url')
    let hasWaited = false
    for (let asked = 0; asked < maxAsked; asked++) {
      const place = places.find(({ isUsable }) => isUsable)
      if (place === undefined) return undefined
      const purge = place.lastPurge
      const id = hash('sha256', `${purge} ${key}`, 'base64url')
      // Equal reads of one process load beside each other only what none can share, such as a large body.
      if (this.#waiting.has(id) || this.#held.has(id)) return undefined
      // Listens before it asks, so that no end is missed.
      const ended = new Promise<LeaseEnd>(resolve => {
        this.#waiting.set(id, resolve)
      })
      try {
        if (await place.take(id, token, leaseMs)) {
          leased('taken')
          return this.#hold(place, id, token, hasWaited)
        }
        const { isStored, found } = await withTimeout(leaseMs, ended) ?? {}
        // A purge makes what was fetched before it useless.
        hasWaited = purge === place.lastPurge
        if (hasWaited && isStored !== undefined) {
          leased(isStored ? 'waited' : 'not_stored')
          return isStored ? { hasWaited, found, sendsEntry: false, end: () => {} } : undefined
        }
        // The holder is slow or gone, or its message was lost.
        leased('lapsed')
      } catch {
        leased('failed')
        return undefined
      } finally {
        this.#waiting.delete(id)
      }
    }
    // A place that lies delays one read a minute.
    this.#unheardAtMs = now()
    return undefined
  }

  /** Wakes the read that waits for a lease, after a message of its holder. */
  onEnded (id: string, end: LeaseEnd): void {
    this.#waiting.get(id)?.(end)
  }

  #hold (place: LeasePlace, id: string, token: string, hasWaited: boolean): FetchLease {
    const { now } = this.#options
    const timer = setInterval(() => place.renew(id, token, leaseMs).catch(() => {}), renewEveryMs).unref()
    this.#held.add(id)
    let isEnded = false
    return {
      hasWaited,
      found: undefined,
      sendsEntry: place.sendsEntries,
      end: (isStored, { wasFound = false, found } = {}) => {
        if (isEnded) return
        isEnded = true
        // Another process has stored it, and no message has come.
        if (hasWaited && wasFound) this.#unheardAtMs = now()
        clearInterval(timer)
        this.#held.delete(id)
        place.end(id, token, isStored, found).catch(() => {})
      }
    }
  }
}

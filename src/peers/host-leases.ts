import { type FoundEntry } from '../cache/tier.js'
import { type IpcCalls, noResponse } from './ipc-calls.js'
import { type LeasePlace } from './fetch-leases.js'
import { type PrimaryMethods } from './messages.js'
import { type Peers } from './peers.js'

/** Holder of a lease, or one that waits for it: a worker as the primary process knows it. */
interface Holder {
  readonly isListening: boolean
}

interface HostLease<Worker> {
  readonly holder: Worker
  readonly token: string
  readonly waiters: Set<Worker>
  untilMs: number
}

// The primary process normally responds at once.
const callTimeoutMs = 250
// Each worker fetches for itself this long after the primary process did not respond.
const hungForMs = 1000
// Larger entries would hold up the messages behind them, so each worker fetches them.
const maxSentBytes = 1_048_576
// Beyond this many, leases of workers that are gone are dropped (law 10: nothing grows without bound).
const maxLeases = 10_000

/** Leases of the workers of one host, in the memory of the primary process. */
export class HostLeases<Worker extends Holder> {
  readonly #leases = new Map<string, HostLease<Worker>>()
  readonly #now: () => number

  constructor (now: () => number) {
    this.#now = now
  }

  /** Takes a lease, or notes that the worker waits; returns true if it was taken. */
  take (worker: Worker, id: string, token: string, ms: number): boolean {
    const lease = this.#leases.get(id)
    if (lease !== undefined && this.#isLive(lease)) {
      lease.waiters.add(worker)
      return false
    }
    if (this.#leases.size >= maxLeases) this.#dropEnded()
    this.#leases.set(id, { holder: worker, token, waiters: new Set(), untilMs: this.#now() + ms })
    return true
  }

  renew (id: string, token: string, ms: number): void {
    const lease = this.#leases.get(id)
    if (lease?.token === token) lease.untilMs = this.#now() + ms
  }

  /** Ends a lease; returns true if others wait, whom a message must reach through `takeWaiters`. */
  end (id: string, token: string): boolean {
    const lease = this.#leases.get(id)
    if (lease?.token !== token) return false
    if (lease.waiters.size === 0) this.#leases.delete(id)
    return lease.waiters.size > 0
  }

  /** Returns the workers that wait for the end of a lease, once; none if a purge has ended it. */
  takeWaiters (id: string, token: string): ReadonlySet<Worker> {
    const lease = this.#leases.get(id)
    if (lease?.token !== token) return new Set()
    this.#leases.delete(id)
    return lease.waiters
  }

  /** Ends all leases before a purge, because what was fetched before it is useless; returns who waits for each. */
  endAll (): ReadonlyArray<readonly [id: string, waiters: ReadonlySet<Worker>]> {
    const ended = [...this.#leases].map(([id, { waiters }]) => [id, waiters] as const)
    this.#leases.clear()
    return ended
  }

  #isLive ({ holder, untilMs }: HostLease<Worker>): boolean {
    return holder.isListening && this.#now() < untilMs
  }

  #dropEnded (): void {
    for (const [id, lease] of this.#leases) if (!this.#isLive(lease)) this.#leases.delete(id)
  }
}

/** Leases of a worker, which asks the primary process. What a holder has stored goes to those that wait. */
export class IpcLeases implements LeasePlace {
  readonly sendsEntries = true
  // The primary process ends all leases before a purge.
  readonly lastPurge = ''
  readonly #primary: Pick<IpcCalls<PrimaryMethods>, 'call'>
  readonly #peers: Pick<Peers, 'publish'>
  readonly #now: () => number
  #hungAtMs = -Infinity

  constructor (primary: Pick<IpcCalls<PrimaryMethods>, 'call'>, peers: Pick<Peers, 'publish'>, now: () => number) {
    this.#primary = primary
    this.#peers = peers
    this.#now = now
  }

  get isUsable (): boolean {
    return this.#now() - this.#hungAtMs >= hungForMs
  }

  async take (id: string, token: string, ms: number): Promise<boolean> {
    try {
      return await this.#primary.call(callTimeoutMs, 'takeLease', id, token, ms)
    } catch (error) {
      if (error === noResponse) this.#hungAtMs = this.#now()
      throw error
    }
  }

  async renew (id: string, token: string, ms: number): Promise<void> {
    await this.#primary.call(callTimeoutMs, 'renewLease', id, token, ms)
  }

  async end (id: string, token: string, isStored: boolean, found: FoundEntry | undefined): Promise<void> {
    if (!await this.#primary.call(callTimeoutMs, 'endLease', id, token)) return
    const sent = found !== undefined && found.stored.body.length <= maxSentBytes ? found : undefined
    this.#peers.publish({ kind: 'fetched', lease: id, token, isStored: isStored && sent !== undefined, found: sent })
  }
}

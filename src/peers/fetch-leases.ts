import { hash, randomBytes } from 'node:crypto'
import { type FetchLease, type LeaseResult } from '../cache/coalescer.js'
import { type FoundEntry } from '../cache/tier.js'
import { withTimeout } from '../with-timeout.js'
import { type RedisLink } from '../redis/link.js'
import { type Peers } from './peers.js'
import { type IpcCalls, noResponse } from './ipc-calls.js'
import { type PrimaryMethods } from './messages.js'

/** Place of leases: Redis for hosts, the primary process for the workers of one host. */
export interface LeasePlace {
  /** False while the place cannot be used. */
  readonly isUsable: boolean
  /** True if the waiting processes share no tier with the holder, which then sends them the entry. */
  readonly sendsEntries: boolean
  /** Name of the last purge; a fetch that began before this purge is of no use. */
  readonly lastPurge: string
  /**
   * Takes a lease and returns 0. If another process holds the lease, notes that this process waits, and returns the
   * time that the lease still has. Rejects if neither is known.
   */
  take(id: string, token: string, ms: number): Promise<number>
  renew(id: string, token: string, ms: number): Promise<void>
  /** Ends a lease, and notifies the processes that wait; `found` is the entry to send. */
  end(id: string, token: string, isStored: boolean, found: FoundEntry | undefined): Promise<void>
}

/** Parts that leases need. */
export interface FetchLeasesOptions {
  /** Places, the farthest first; the first usable one is used. */
  readonly places: readonly LeasePlace[]
  readonly now: () => number
  readonly leased: (result: LeaseResult) => void
}

/** End of a lease; `isStored` is undefined if a purge has made the fetch useless. */
interface LeaseEnd {
  readonly isStored: boolean | undefined
  readonly found?: FoundEntry | undefined
}

// Lease of a holder: one that dies delays the reads of other processes by this time at most.
const leaseMs = 2000
const renewEveryMs = leaseMs / 2

// Limits the wait for a slow holder, or for a place that reports a holder by mistake.
const maxWaitMs = 10_000
// Skips waits for this long after a message was lost: one read in this time waits in vain.
const unheardMs = 60_000

/**
 * Leases for fetches. Of the processes that miss one read at the same time one asks an upstream, and the others take
 * what it has stored or sends. Without a place each process fetches for itself (law 6: the cache can only help).
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
   * Takes the lease of a read, or waits until its holder has ended or is gone. Undefined if this process fetches for
   * itself: no place responds, messages do not arrive, or the fetch of the holder was of no use to others.
   */
  async take (key: string): Promise<FetchLease | undefined> {
    const { places, now, leased } = this.#options
    if (now() - this.#unheardAtMs < unheardMs) return undefined
    const token = randomBytes(12).toString('base64url')
    const untilMs = now() + maxWaitMs
    let hasWaited = false
    while (now() < untilMs) {
      const place = places.find(({ isUsable }) => isUsable)
      if (place === undefined) return undefined
      const purge = place.lastPurge
      const id = hash('sha256', `${purge} ${key}`, 'base64url')
      // Equal reads of one process meet here only if their result cannot be shared, such as a large body.
      if (this.#waiting.has(id) || this.#held.has(id)) return undefined
      // Listens before it asks, so that it misses no end of a lease.
      const ended = new Promise<LeaseEnd>(resolve => {
        this.#waiting.set(id, resolve)
      })
      try {
        const leftMs = await place.take(id, token, leaseMs)
        if (leftMs === 0) {
          leased('taken')
          return this.#hold(place, id, token, hasWaited)
        }
        // Takes the lease again as soon as its time is over: a holder that died delays this read by no more than one
        // lease.
        const { isStored, found } = await withTimeout(leftMs, ended) ?? {}
        // Fetches of before a purge are useless, so the result of the wait counts only without a purge meanwhile.
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
    // Skips waits for a while: a place whose messages do not arrive delays at most one read a minute.
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
        // Notes a lost message: another process has stored the read, and this process was not notified.
        if (hasWaited && wasFound) this.#unheardAtMs = now()
        clearInterval(timer)
        this.#held.delete(id)
        place.end(id, token, isStored, found).catch(() => {})
      }
    }
  }
}

/** Parts that leases in Redis need. */
export interface RedisLeasesOptions {
  readonly link: Pick<RedisLink, 'isSteady' | 'runScript'>
  readonly prefix: string
  readonly peers: Pick<Peers, 'publish'>
  readonly lastPurge: () => string
  /** False if no message of another host arrives, as for a user of Redis without a right to the channel. */
  readonly hearsHosts: () => boolean
  /** False while entries in Redis may not be read. */
  readonly isReadable: () => boolean
}

const invalidResult = new Error('Redis responds to a script with what it cannot return')

// A mark behind the token says that others wait; APPEND leaves the time to live unchanged.
const takeScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'taken' end
if redis.call('STRLEN', KEYS[1]) == #ARGV[1] then redis.call('APPEND', KEYS[1], '+') end
return 'left ' .. redis.call('PTTL', KEYS[1])
`

const renewScript = `
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`

const endScript = `
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return #held - #ARGV[1]
`

/** Leases of hosts, in the Redis that also stores what their holders fetch. */
export class RedisLeases implements LeasePlace {
  readonly sendsEntries = false
  readonly #options: RedisLeasesOptions

  constructor (options: RedisLeasesOptions) {
    this.#options = options
  }

  get isUsable (): boolean {
    const { link, isReadable, hearsHosts } = this.#options
    return link.isSteady && hearsHosts() && isReadable()
  }

  get lastPurge (): string {
    return this.#options.lastPurge()
  }

  async take (id: string, token: string, ms: number): Promise<number> {
    const result = await this.#run(takeScript, id, token, ms)
    if (result === 'taken') return 0
    // Rejects what the script cannot return; a number could be the reply to another command.
    const [, left] = /^left (\d{1,9})$/.exec(String(result)) ?? []
    if (left === undefined || Number(left) > ms) throw invalidResult
    return Number(left) + 1
  }

  async renew (id: string, token: string, ms: number): Promise<void> {
    await this.#run(renewScript, id, token, ms)
  }

  async end (id: string, token: string, isStored: boolean): Promise<void> {
    if (await this.#run(endScript, id, token) === 1) {
      this.#options.peers.publish({ kind: 'fetched', lease: id, isStored })
    }
  }

  async #run (script: string, id: string, ...args: ReadonlyArray<string | number>): Promise<unknown> {
    const { link, prefix } = this.#options
    return await link.runScript('lease', script, [`${prefix}lease:${id}`], args)
  }
}

/** Worker that holds a lease or waits for one, as the primary process knows it. */
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

  /** Takes a lease, or notes that the worker waits; returns 0 if it was taken, else its time that is left. */
  take (worker: Worker, id: string, token: string, ms: number): number {
    const lease = this.#leases.get(id)
    if (lease !== undefined && this.#isLive(lease)) {
      lease.waiters.add(worker)
      return Math.max(1, lease.untilMs - this.#now())
    }
    if (this.#leases.size >= maxLeases) this.#dropEnded()
    this.#leases.set(id, { holder: worker, token, waiters: new Set(), untilMs: this.#now() + ms })
    return 0
  }

  renew (id: string, token: string, ms: number): void {
    const lease = this.#leases.get(id)
    if (lease?.token === token) lease.untilMs = this.#now() + ms
  }

  /** Ends a lease; returns true if other workers wait, which `takeWaiters` lists for a message. */
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

/** Leases of a worker, which asks the primary process. What a holder has stored is sent to the workers that wait. */
export class IpcLeases implements LeasePlace {
  readonly sendsEntries = true
  // Empty, because the primary process ends all leases before a purge.
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

  async take (id: string, token: string, ms: number): Promise<number> {
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

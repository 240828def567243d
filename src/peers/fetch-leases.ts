import { hash, randomBytes } from 'node:crypto'
import { type FetchLease, type LeaseResult } from '../cache/coalescer.js'
import { type RedisLink } from '../redis/link.js'
import { withTimeout } from '../with-timeout.js'
import { type Peers } from './peers.js'

/** Parts that leases need. */
export interface FetchLeasesOptions {
  readonly link: Pick<RedisLink, 'isSteady' | 'run'>
  readonly prefix: string
  readonly peers: Pick<Peers, 'publish'>
  /** Names the last purge: a fetch from before it is of no use after it. */
  readonly lastPurge: () => string
  /** False while entries in Redis may not be read. */
  readonly isReadable: () => boolean
  readonly now: () => number
  readonly leased: (result: LeaseResult) => void
}

// A holder that dies delays the reads of others by this long at most.
const leaseMs = 2000
const renewEveryMs = leaseMs / 2

// Ends the wait for a holder that takes longer than upstreams mostly may, or for a Redis that lies.
const maxAsked = 5
// Where messages do not arrive, as for a user of Redis without a right to the channel, one read in this time waits for
// one in vain.
const unheardMs = 60_000
const invalidResult = new Error('Redis responds to a script with what it cannot return')

// A mark behind the token says that others wait; APPEND keeps the time to live.
const takeScript = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('STRLEN', KEYS[1]) == #ARGV[1] then redis.call('APPEND', KEYS[1], '+') end
return 0
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

/**
 * Leases for fetches over Redis: of the processes that miss one read at the same time one asks an upstream, and the
 * others take what it has stored. Without Redis each fetches for itself (law 6: the cache can only help).
 */
export class FetchLeases {
  readonly #options: FetchLeasesOptions
  readonly #waiting = new Map<string, (isStored: boolean) => void>()
  readonly #held = new Set<string>()
  #unheardAtMs = -Infinity
  #scriptError: string | undefined

  constructor (options: FetchLeasesOptions) {
    this.#options = options
  }

  /** Last error of a script from a Redis that responds otherwise. */
  get scriptError (): string | undefined {
    return this.#scriptError
  }

  /**
   * Takes the lease of a read, or waits until its holder has ended or is gone. Undefined where this process fetches for
   * itself: Redis does not respond, its messages do not arrive, or the fetch of the holder was of no use to others.
   */
  async take (key: string): Promise<FetchLease | undefined> {
    const { link, prefix, lastPurge, isReadable, now, leased } = this.#options
    if (now() - this.#unheardAtMs < unheardMs) return undefined
    const token = randomBytes(12).toString('base64url')
    let hasWaited = false
    for (let asked = 0; asked < maxAsked; asked++) {
      const purge = lastPurge()
      const id = hash('sha256', `${purge} ${key}`, 'base64url')
      const name = `${prefix}lease:${id}`
      // Equal reads of one process load beside each other only what none can share, such as a large body.
      if (this.#waiting.has(id) || this.#held.has(id)) return undefined
      // Listens before it asks, so that no end is missed.
      const ended = new Promise<boolean>(resolve => {
        this.#waiting.set(id, resolve)
      })
      try {
        if (!link.isSteady || !isReadable()) return undefined
        const result = await link.run(
          'lease',
          async client => await client.eval(takeScript, 1, name, token, leaseMs)
        )
        // Rejects what the script cannot return.
        if (result !== 1 && result !== 0) throw invalidResult
        this.#scriptError = undefined
        if (result === 1) {
          leased('taken')
          return this.#hold(id, name, token, hasWaited)
        }
        const isStored = await withTimeout(leaseMs, ended)
        // A purge makes what was fetched before it useless.
        hasWaited = purge === lastPurge()
        if (hasWaited && isStored !== undefined) {
          leased(isStored ? 'waited' : 'not_stored')
          return isStored ? { hasWaited, end: () => {} } : undefined
        }
        // The holder is slow or gone, or its message was lost.
        leased('lapsed')
      } catch (error) {
        // A script error lasts until an operator changes Redis.
        if (error instanceof Error && error.name === 'ReplyError') this.#scriptError = error.message
        leased('failed')
        return undefined
      } finally {
        this.#waiting.delete(id)
      }
    }
    // A Redis that lies delays one read a minute.
    this.#unheardAtMs = now()
    return undefined
  }

  /** Wakes the read that waits for a lease, after a message of its holder. */
  onEnded (id: string, isStored: boolean): void {
    this.#waiting.get(id)?.(isStored)
  }

  #hold (id: string, name: string, token: string, hasWaited: boolean): FetchLease {
    const { link, peers, now } = this.#options
    const timer = setInterval(() => {
      link.run('lease', async client => await client.eval(renewScript, 1, name, token, leaseMs)).catch(() => {})
    }, renewEveryMs).unref()
    this.#held.add(id)
    let isEnded = false
    return {
      hasWaited,
      end: (isStored, wasFound = false) => {
        if (isEnded) return
        isEnded = true
        // Another process has stored it, and no message has come.
        if (hasWaited && wasFound) this.#unheardAtMs = now()
        clearInterval(timer)
        this.#held.delete(id)
        link.run('lease', async client => await client.eval(endScript, 1, name, token)).then(others => {
          if (others === 1) peers.publish({ kind: 'fetched', lease: id, isStored })
        }, () => {})
      }
    }
  }
}

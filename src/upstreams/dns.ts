import { type LookupAddress, type LookupOptions, lookup as lookupAtSystem } from 'node:dns'
import { type LookupFunction, isIP, type Socket } from 'node:net'
import { withTimeout } from '../with-timeout.js'

/** Resolves a host name; rejects with the system's error code. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** Settings of a DNS cache. */
export interface DnsCacheOptions {
  /** Absent: the system resolver. */
  readonly resolve?: Resolve | undefined
  readonly now: () => number
  /** Connect timeout of the caller, which lookups must stay below. */
  readonly timeoutMs: number
  /** Runs after each successful lookup. */
  readonly onAnswer?: (addresses: readonly LookupAddress[]) => void
}

/** DNS lookup failed, or did not end in time. */
export class DnsError extends Error {
  readonly code: string

  constructor (hostname: string, code: string) {
    super(`DNS lookup of ${hostname} failed: ${code}`)
    this.code = code
  }
}

interface PendingLookup {
  readonly startedAtMs: number
  readonly addresses: Promise<readonly LookupAddress[]>
}

interface CachedName {
  pending: PendingLookup | undefined
  latest: { readonly atMs: number, readonly addresses: readonly LookupAddress[] } | undefined
  rotation: number
}

// Age up to which an answer is used without a lookup, so that a burst of connections resolves the name once.
const freshMs = 1000
// Waits for a lookup this long, or this share of the timeout if that is shorter, then uses a stale answer (RFC 8767,
// section 5).
const staleAfterMs = 1000
const staleAfterShare = 1 / 5
// Ends a lookup before the caller's timeout and before a poll's (7 s), so that the failure is reported as one of DNS.
const maxLookupMs = 6500
const maxLookupShare = 0.9
// Limits the age of stale answers (RFC 8767, section 5).
const maxStaleMs = 86_400_000
// Bounds the names that a changing Redis cluster can bring (law 10: nothing grows without bound).
const maxNames = 256

/** Resolves each name once at a time: libuv runs two lookups at a time, and hanging ones would block all others. */
export class DnsCache {
  readonly #options: DnsCacheOptions
  readonly #resolve: Resolve
  readonly #entries = new Map<string, CachedName>()

  constructor (options: DnsCacheOptions) {
    this.#options = options
    this.#resolve = options.resolve ?? resolveAtSystem
  }

  /** Adapter for `net.connect`. */
  readonly lookup: LookupFunction = (hostname: string, { all }: LookupOptions, callback) => {
    this.resolve(hostname).then(
      found => {
        const [first] = found
        if (all === true) callback(null, [...found])
        else callback(null, first?.address ?? '', first?.family)
      },
      (error: Error) => callback(error, [])
    )
  }

  /** Resolves within the timeout, else returns the last answer; rotates through several addresses. */
  async resolve (hostname: string): Promise<readonly LookupAddress[]> {
    const entry = this.#entryOf(hostname)
    return rotate(await this.#resolveInTime(hostname, entry), entry.rotation++)
  }

  /** Starts a lookup even if the cached answer is fresh. */
  async refresh (hostname: string): Promise<void> {
    await this.#lookUp(hostname, this.#entryOf(hostname)).addresses
  }

  async #resolveInTime (hostname: string, entry: CachedName): Promise<readonly LookupAddress[]> {
    const { now, timeoutMs } = this.#options
    if (entry.latest !== undefined && now() - entry.latest.atMs < freshMs) return entry.latest.addresses
    const { startedAtMs, addresses } = this.#lookUp(hostname, entry)
    const { latest } = entry
    if (latest === undefined || now() - latest.atMs >= maxStaleMs) {
      const found = await withTimeout(Math.min(maxLookupMs, timeoutMs * maxLookupShare), addresses)
      if (found === undefined) throw new DnsError(hostname, 'ETIMEOUT')
      return found
    }
    try {
      return await withTimeout(
        Math.max(0, startedAtMs + Math.min(staleAfterMs, timeoutMs * staleAfterShare) - now()),
        addresses
      ) ?? latest.addresses
    } catch (error) {
      // Rejects without an earlier answer: ENOTFOUND drops it, because a name that no longer exists has no stale
      // answer.
      if (entry.latest === undefined) throw error
      return latest.addresses
    }
  }

  #lookUp (hostname: string, entry: CachedName): PendingLookup {
    if (entry.pending === undefined) {
      const addresses = this.#lookUpOnce(hostname, entry).finally(() => {
        entry.pending = undefined
      })
      addresses.catch(() => {})
      entry.pending = { startedAtMs: this.#options.now(), addresses }
    }
    return entry.pending
  }

  async #lookUpOnce (hostname: string, entry: CachedName): Promise<readonly LookupAddress[]> {
    try {
      const addresses = await this.#resolve(hostname)
      if (addresses.length === 0) throw new DnsError(hostname, 'ENOTFOUND')
      entry.latest = { atMs: this.#options.now(), addresses }
      this.#options.onAnswer?.(addresses)
      return addresses
    } catch (error) {
      const { code = 'EAI_FAIL' } = error as NodeJS.ErrnoException
      if (code === 'ENOTFOUND') entry.latest = undefined
      throw new DnsError(hostname, code)
    }
  }

  #entryOf (hostname: string): CachedName {
    const entry = this.#entries.get(hostname) ?? { pending: undefined, latest: undefined, rotation: 0 }
    this.#entries.set(hostname, entry)
    for (const oldest of this.#entries.keys()) if (this.#entries.size > maxNames) this.#entries.delete(oldest)
    return entry
  }
}

async function resolveAtSystem (hostname: string): Promise<readonly LookupAddress[]> {
  return await new Promise((resolve, reject) => {
    lookupAtSystem(hostname, { all: true }, (error, addresses) => {
      if (error === null) resolve(addresses)
      else reject(error)
    })
  })
}

// Rotates within the first family, to spread connections; the order of families stays the system's.
function rotate (addresses: readonly LookupAddress[], rotation: number): readonly LookupAddress[] {
  const sameFamily = addresses.filter(({ family }) => family === addresses[0]?.family)
  const at = rotation % Math.max(1, sameFamily.length)
  return [
    ...sameFamily.slice(at),
    ...sameFamily.slice(0, at),
    ...addresses.filter(address => !sameFamily.includes(address))
  ]
}

/** Settings for following the host name of an upstream. */
export interface DnsMonitorOptions extends Omit<DnsCacheOptions, 'onAnswer'> {
  readonly hostname: string
  readonly resolveEveryMs?: number | undefined
  /** Runs when the name has left the address of an open connection. */
  readonly onMoved: () => void
}

const defaultResolveEveryMs = 15_000
// Expires steady addresses, which two equal lookups in a row have shown, after less than two intervals. Answers of
// rotating names vary, so their addresses expire only after 40 intervals.
const steadyAfterIntervals = 1.8
const expiredAfterIntervals = 40

/**
 * Notices that a host name no longer resolves to the addresses of open connections; much later for names with rotating
 * answers.
 */
export class DnsMonitor {
  /** Lookup function for sockets; undefined if the host is an IP address. */
  readonly lookup: LookupFunction | undefined
  readonly #options: DnsMonitorOptions
  // Open connections, with the time at which the name last resolved to their address.
  readonly #resolvedAtMs = new Map<Socket, number>()
  #addresses = ''
  #unchangedSinceMs = 0
  readonly #timer: NodeJS.Timeout | undefined

  constructor (options: DnsMonitorOptions) {
    const { hostname, resolveEveryMs = defaultResolveEveryMs } = options
    this.#options = options
    if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return
    const dnsCache = new DnsCache({
      ...options,
      onAnswer: addresses => this.#applyAddresses(addresses)
    })
    this.lookup = dnsCache.lookup
    // Resolves once at the start too, so a later change is noticed even before the first request.
    const refresh = (): void => {
      dnsCache.refresh(hostname).catch(() => {})
    }
    this.#timer = setInterval(refresh, resolveEveryMs).unref()
    refresh()
  }

  /** Watches the address of a new connection. */
  watch (socket: Socket): void {
    this.#resolvedAtMs.set(socket, this.#options.now())
    socket.once('close', () => this.#resolvedAtMs.delete(socket))
  }

  close (): void {
    clearInterval(this.#timer)
  }

  #applyAddresses (addresses: readonly LookupAddress[]): void {
    const { now, resolveEveryMs = defaultResolveEveryMs, onMoved } = this.#options
    const nowMs = now()
    const resolved = new Set(addresses.map(({ address }) => address))
    const joined = [...resolved].sort().join()
    if (joined !== this.#addresses) {
      this.#addresses = joined
      this.#unchangedSinceMs = nowMs
    }
    const isSteady = nowMs - this.#unchangedSinceMs >= steadyAfterIntervals * resolveEveryMs
    let hasMoved = false
    for (const [socket, atMs] of this.#resolvedAtMs) {
      // Drops the zone of a link-local address, which DNS answers do not have.
      const address = socket.remoteAddress?.split('%', 1).join()
      if (address === undefined || resolved.has(address)) this.#resolvedAtMs.set(socket, nowMs)
      else hasMoved ||= isSteady || nowMs - atMs >= expiredAfterIntervals * resolveEveryMs
    }
    if (!hasMoved) return
    this.#resolvedAtMs.clear()
    onMoved()
  }
}

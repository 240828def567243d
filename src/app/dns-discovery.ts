import { isIP } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { DnsCache, type Resolve } from '../upstreams/dns.js'
import { withTimeout } from '../with-timeout.js'
import { type Varve } from './proxy-server.js'

/** Settings of DNS discovery, as parameters for tests. */
export interface DnsDiscoveryOptions {
  readonly log: Pick<Logger, 'warn' | 'error'> | undefined
  readonly now: () => number
  /** Absent: the system resolver. */
  readonly resolve?: Resolve | undefined
  readonly everyMs?: number
}

type UpstreamConfig = Config['upstreams'][number]

/** Address of a name; its place in the list decides the name of its upstream. */
interface AddressSlot {
  readonly address: string
  /** Look-ups in a row that did not return this address. */
  readonly missed: number
}

/** Addresses of the names of one configuration. */
type Slots = ReadonlyMap<string, ReadonlyArray<AddressSlot | undefined>>

/** Configuration with an upstream for each address of a name. */
interface Expanded {
  readonly expanded: Config
  readonly slots: Slots
}

/** Interval of look-ups, as for the names of other upstreams. */
export const resolveEveryMs = 15_000
// Drops an address after this many look-ups without it, because some names return only a part of their addresses each
// time.
const maxMissed = 3
// Bounds upstreams and their labels (law 10: nothing grows without bound).
const maxAddresses = 32
// A hanging resolver must not delay a start.
const maxWaitMs = 1000
// Time limit of the DNS cache, which returns old addresses while a resolver is slow.
const lookUpTimeoutMs = 5000

/** Names with `resolve: all`: each of their addresses is an upstream of its own. */
export class DnsDiscovery {
  readonly #log: DnsDiscoveryOptions['log']
  readonly #cache: DnsCache

  constructor ({ log, now, resolve }: DnsDiscoveryOptions) {
    this.#log = log
    this.#cache = new DnsCache({ now, resolve, timeoutMs: lookUpTimeoutMs })
  }

  /**
   * Replaces each upstream with `resolve: all` by one for each address that DNS returns now. A name keeps its slots, so
   * that addresses keep their upstreams; slots of names that the configuration lacks are dropped.
   */
  async expand (config: Config, before: Slots = new Map()): Promise<Expanded> {
    const slots = new Map<string, ReadonlyArray<AddressSlot | undefined>>()
    const expanded = await Promise.all(config.upstreams.map(async (upstream, at) => {
      const name = upstream.name ?? `node-${at + 1}`
      if (!isFollowed(upstream)) return [{ ...upstream, name }]
      const key = `${name} ${upstream.url}`
      const own = this.#slotsOf(name, before.get(key) ?? [], await this.#lookUp(upstream))
      slots.set(key, own)
      const upstreams = own.flatMap((slot, at) =>
        slot === undefined ? [] : { ...upstream, name: `${name}-${at + 1}`, resolve: slot.address }
      )
      // A name that never had an address is one upstream, whose state shows why.
      return upstreams.length > 0 ? upstreams : [{ ...upstream, name: `${name}-1`, resolve: 'any' }]
    }))
    return { expanded: slots.size === 0 ? config : { ...config, upstreams: expanded.flat() }, slots }
  }

  async #lookUp ({ url }: UpstreamConfig): Promise<string[] | undefined> {
    const found = await withTimeout(maxWaitMs, this.#cache.resolve(new URL(url).hostname).catch(() => undefined))
    return found && [...new Set(found.map(({ address }) => address))].sort()
  }

  #slotsOf (
    name: string,
    before: ReadonlyArray<AddressSlot | undefined>,
    found: readonly string[] | undefined
  ): ReadonlyArray<AddressSlot | undefined> {
    if (found === undefined) return before
    const slots = before.map(slot => {
      const missed = slot === undefined || found.includes(slot.address) ? 0 : slot.missed + 1
      return slot !== undefined && missed < maxMissed ? { ...slot, missed } : undefined
    })
    for (const address of found) {
      if (slots.some(slot => slot?.address === address)) continue
      const free = slots.indexOf(undefined)
      const at = free === -1 ? slots.length : free
      if (at >= maxAddresses) {
        this.#log?.warn({ upstream: name, maxAddresses }, 'name has too many addresses: some get no reads')
        break
      }
      slots[at] = { address, missed: 0 }
    }
    return slots
  }
}

/** Starts varve with an upstream for each address of a name, and replaces its upstreams as DNS changes. */
export async function startDnsDiscovery (
  config: Config,
  start: (expanded: Config) => Promise<Varve>,
  options: DnsDiscoveryOptions
): Promise<Varve> {
  const discovery = new DnsDiscovery(options)
  let current = { config, ...await discovery.expand(config) }
  const varve = await start(current.expanded)
  // Runs one change after the other, because a reload replaces upstreams too.
  let last: Promise<unknown> = Promise.resolve()
  const change = async <T>(config: () => Config, apply: (expanded: Config) => Promise<T>): Promise<T> => {
    const changed = last.then(async () => {
      const next = { config: config(), ...await discovery.expand(config(), current.slots) }
      const result = await apply(next.expanded)
      // Set after everything that can fail, so that a rejected reload changes no slot.
      current = next
      return result
    })
    last = changed.catch(() => {})
    return await changed
  }
  let isUpdating = false
  const timer = setInterval(() => {
    if (isUpdating || current.slots.size === 0) return
    isUpdating = true
    change(() => current.config, async expanded => {
      if (!isDeepStrictEqual(expanded.upstreams, current.expanded.upstreams)) await varve.replaceUpstreams(expanded)
    }).catch((error: unknown) =>
      options.log?.error({ err: error }, 'upstreams could not follow DNS: the previous ones stay in use')
    ).finally(() => {
      isUpdating = false
    })
  }, options.everyMs ?? resolveEveryMs).unref()
  return {
    ...varve,
    reload: async next => await change(() => next, varve.reload),
    stop: async deadlines => {
      clearInterval(timer)
      await varve.stop(deadlines)
    }
  }
}

// A name behind a proxy is not looked up, because the proxy resolves it.
function isFollowed ({ url, resolve, proxy }: UpstreamConfig): boolean {
  return resolve === 'all' && isIP(new URL(url).hostname.replace(/^\[|\]$/g, '')) === 0 && proxy !== true
}

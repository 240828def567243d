import { isIP } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { DnsCache, type Resolve } from '../upstreams/dns.js'
import { withTimeout } from '../with-timeout.js'
import { type Varve } from './single-process.js'

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
  /** Look-ups in a row that did not return it. */
  missed: number
}

/** Interval of look-ups, as for the names of other upstreams. */
export const resolveEveryMs = 15_000
// Some names return a part of their addresses each time.
const maxMissed = 3
// Bounds upstreams and their labels (law 10: nothing grows without bound).
const maxAddresses = 32
// A hanging resolver must not delay a start.
const maxWaitMs = 1000

/** Names with `resolve: all`: each of their addresses is an upstream of its own. */
export class DnsDiscovery {
  readonly #options: DnsDiscoveryOptions
  // Slots stay while a reload keeps the name, so that upstreams keep theirs.
  readonly #slots = new Map<string, Array<AddressSlot | undefined>>()
  readonly #dnsCaches = new Map<string, DnsCache>()

  constructor (options: DnsDiscoveryOptions) {
    this.#options = options
  }

  /** Returns true if a configuration has names to follow. */
  static needs ({ upstreams }: Config): boolean {
    return upstreams.some(isFollowed)
  }

  /** Replaces each such upstream by one for each address that DNS returns now. */
  async expand (config: Config): Promise<Config> {
    if (!DnsDiscovery.needs(config)) return config
    const expanded = await Promise.all(config.upstreams.map(async (upstream, at) => {
      const named = { ...upstream, name: upstream.name ?? `node-${at + 1}` }
      return isFollowed(upstream) ? await this.#upstreamsOf(named) : [named]
    }))
    return { ...config, upstreams: expanded.flat() }
  }

  async #upstreamsOf (upstream: UpstreamConfig & { readonly name: string }): Promise<UpstreamConfig[]> {
    const key = `${upstream.name} ${upstream.url}`
    const slots = this.#slots.get(key) ?? []
    this.#slots.set(key, slots)
    const found = await withTimeout(maxWaitMs, this.#lookUp(upstream).catch(() => undefined))
    if (found !== undefined) this.#update(slots, found, upstream.name)
    const upstreams = slots.flatMap((slot, at) =>
      slot === undefined ? [] : { ...upstream, name: `${upstream.name}-${at + 1}`, resolve: slot.address }
    )
    // A name that never had an address is one upstream, whose state shows why.
    return upstreams.length > 0 ? upstreams : [{ ...upstream, name: `${upstream.name}-1`, resolve: 'any' }]
  }

  async #lookUp ({ url, timeoutMs }: UpstreamConfig): Promise<string[]> {
    const { hostname } = new URL(url)
    const { now, resolve } = this.#options
    const cache = this.#dnsCaches.get(hostname) ?? new DnsCache({ now, timeoutMs, resolve })
    this.#dnsCaches.set(hostname, cache)
    return [...new Set((await cache.resolve(hostname)).map(({ address }) => address))].sort()
  }

  #update (slots: Array<AddressSlot | undefined>, found: readonly string[], name: string): void {
    slots.forEach((slot, at) => {
      if (slot === undefined) return
      slot.missed = found.includes(slot.address) ? 0 : slot.missed + 1
      if (slot.missed >= maxMissed) slots[at] = undefined
    })
    for (const address of found) {
      if (slots.some(slot => slot?.address === address)) continue
      const free = slots.findIndex(slot => slot === undefined)
      const at = free === -1 ? slots.length : free
      if (at >= maxAddresses) {
        this.#options.log?.warn({ upstream: name, maxAddresses }, 'name has too many addresses: some get no reads')
        return
      }
      slots[at] = { address, missed: 0 }
    }
  }
}

/** Starts varve with an upstream for each address of a name, and replaces its upstreams as DNS changes. */
export async function startDnsDiscovery (
  config: Config,
  start: (expanded: Config) => Promise<Varve>,
  options: DnsDiscoveryOptions
): Promise<Varve> {
  const discovery = new DnsDiscovery(options)
  let original = config
  let expanded = await discovery.expand(config)
  const varve = await start(expanded)
  // Changes one after the other: a reload replaces upstreams too.
  let changing: Promise<unknown> = Promise.resolve()
  const inTurn = async <T>(change: () => Promise<T>): Promise<T> => {
    const changed = changing.then(change)
    changing = changed.catch(() => {})
    return await changed
  }
  const update = async (): Promise<void> => {
    const next = await discovery.expand(original)
    if (isDeepStrictEqual(next.upstreams, expanded.upstreams)) return
    await varve.replaceUpstreams(next)
    expanded = next
  }
  let isUpdating = false
  const timer = setInterval(() => {
    if (isUpdating || !DnsDiscovery.needs(original)) return
    isUpdating = true
    inTurn(update).catch((error: unknown) => {
      options.log?.error({ err: error }, 'upstreams could not follow DNS: the previous ones stay in use')
    }).finally(() => {
      isUpdating = false
    })
  }, options.everyMs ?? resolveEveryMs).unref()
  return {
    ...varve,
    reload: async next =>
      await inTurn(async () => {
        const nextExpanded = await discovery.expand(next)
        const keys = await varve.reload(nextExpanded)
        original = next
        expanded = nextExpanded
        return keys
      }),
    stop: async deadlines => {
      clearInterval(timer)
      await varve.stop(deadlines)
    }
  }
}

// A proxy resolves names itself.
function isFollowed ({ url, resolve, proxy }: UpstreamConfig): boolean {
  return resolve === 'all' && isIP(new URL(url).hostname.replace(/^\[|\]$/g, '')) === 0 && proxy !== true
}

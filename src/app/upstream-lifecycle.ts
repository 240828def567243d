import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { type Logger } from 'pino'
import { Quarantine, FutureTimestampGuard } from '../chain/quarantine.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { TypedEvent } from '../typed-event.js'
import { type Resolve } from '../upstreams/dns.js'
import { HeadPoller, type UpstreamPoll } from '../upstreams/head-pollers.js'
import { Hedger, type HedgeMetrics } from '../upstreams/hedger.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type SharedLimits } from '../upstreams/shared-rate.js'
import { type SendProbe, Upstream, type UpstreamMetrics, type UpstreamState } from '../upstreams/upstream.js'
import { withTimeout } from '../with-timeout.js'
import { type Chain } from './chain.js'

// Limits how long removed upstreams stay for the first polls of new upstreams.
const firstPollMs = 3000

/** Parts that building an upstream needs. */
export interface UpstreamParts extends Omit<Chain, 'events' | 'peers' | 'ofRedis' | 'ofLog' | 'places'> {
  readonly log: Logger
  readonly metrics: UpstreamMetrics & HedgeMetrics
  readonly inFlight: InFlightBytes
  readonly cordons: ReadonlySet<string>
  readonly sendProbe: SendProbe
  readonly peerHeadAgeMs: () => number
  readonly shared: SharedLimits
  readonly sandbox: NamedUpstream | undefined
}

/** Builds the upstreams of a configuration, and replaces them at a reload. */
export class UpstreamLifecycle {
  readonly #parts: UpstreamParts
  #monitored: readonly MonitoredUpstream[] = []
  readonly #draining = new Set<MonitoredUpstream>()

  /** Applies the configuration without a poll: the first polls belong to `start`. */
  constructor (config: Config, parts: UpstreamParts) {
    this.#parts = parts
    this.#apply(this.#monitoredOf(config), config)
  }

  /**
   * Applies another upstream list; unchanged upstreams stay untouched. Resolves after first polls of new upstreams,
   * within a time limit.
   */
  async reload (config: Config): Promise<void> {
    const before = this.#monitored
    const after = this.#monitoredOf(config)
    // Verifies new upstreams against present ones, so no upstream leaves before that (law 7: chains never mix).
    this.#replace([...after, ...before.filter(one => !after.includes(one))], undefined)
    await withTimeout(
      firstPollMs,
      Promise.all(after.map(async one => {
        if (!before.includes(one)) await one.poll.start()
      }))
    )
    this.#apply(after, config)
    for (const one of before) if (!after.includes(one)) this.#drain(one).catch(() => {})
  }

  async close (): Promise<void> {
    await Promise.all([...this.#monitored, ...this.#draining].map(async ({ upstream }) => await upstream.close()))
  }

  #monitoredOf (config: Config): MonitoredUpstream[] {
    return namedUpstreamsOf(config, this.#parts.sandbox).map(upstream =>
      this.#monitored.find(one =>
        isDeepStrictEqual(one.config, upstream) && one.certificates === digestCertificates(upstream)
      ) ??
        monitorUpstream(upstream, config, this.#parts)
    )
  }

  #apply (monitored: readonly MonitoredUpstream[], { hedge }: Config): void {
    const isHedging = monitored.length > 1 && hedge.share > 0
    this.#replace(monitored, isHedging ? new Hedger(hedge, this.#parts.metrics) : undefined)
  }

  #replace (monitored: readonly MonitoredUpstream[], hedger: Hedger | undefined): void {
    this.#monitored = monitored
    this.#parts.headPollers.replace(monitored)
    this.#parts.upstreamPool.replaceUpstreams(monitored.map(({ upstream }) => upstream), hedger)
  }

  // Requests in flight finish before the connection closes.
  async #drain (one: MonitoredUpstream): Promise<void> {
    one.poll.stop()
    this.#draining.add(one)
    await one.upstream.drain()
    this.#draining.delete(one)
  }
}

/** Assigns names to configured upstreams; a sandbox replaces them all. */
export function namedUpstreamsOf ({ upstreams }: Config, sandbox: NamedUpstream | undefined): readonly NamedUpstream[] {
  return sandbox === undefined
    ? upstreams.map((upstream, at) => ({ ...upstream, name: upstream.name ?? `node-${at + 1}` }))
    : [sandbox]
}

/** Configured upstream with its health polling. */
interface MonitoredUpstream extends UpstreamPoll {
  readonly config: NamedUpstream
  /** Digest of its certificate files, which a renewal changes under the same paths. */
  readonly certificates: string
}

/** Builds an upstream and its polls. */
function monitorUpstream (
  config: NamedUpstream,
  { cache, head: { pollMs } }: Config,
  parts: UpstreamParts
): MonitoredUpstream {
  const { now, log, tracker, upstreamPool: pool, spaces, chainVerifier, releases, metrics, inFlight, cordons } = parts
  const connectionLost = new TypedEvent()
  const futureTimestampGuard = new FutureTimestampGuard(now, () => performance.timeOrigin + now())
  const upstream = new Upstream(
    {
      ...withFixedAddress(config),
      onConnectionLost: () => connectionLost.publish(),
      maxBufferedBytes: cache.maxEntryMb * bytesPerMb,
      inFlight,
      shared: parts.shared,
      now,
      acceptsTimestamp: usec => futureTimestampGuard.accepts(usec),
      isCordoned: () => cordons.has(config.name)
    },
    metrics,
    own => new Quarantine(own, chainVerifier, now)
  )
  const logChange = stateLogOf(upstream, log)
  const poll = new HeadPoller({
    upstream,
    fetch: async request => await pool.probe(upstream, request, parts.sendProbe),
    heads: tracker,
    pollMs,
    peerHeadAgeMs: parts.peerHeadAgeMs,
    now,
    onPolled: logChange,
    onRelease: release => {
      // Sets the release of the upstream before the release counts as seen, because entries name the release that
      // rendered them.
      upstream.release = release
      releases.record(release, upstream.name)
    },
    onTick: () => {
      const { stamped } = upstream
      upstream.guard.reverifyIfDue(stamped).catch(() => {})
      if (upstream === pool.referenceUpstream && upstream.isVerified && stamped !== undefined) {
        spaces.renewIfDue(stamped).catch(() => {})
      }
      logChange()
    }
  })
  connectionLost.subscribe(() => {
    if (upstream.guard.recordConnectionLost()) poll.poll().catch(() => {})
  })
  return { config, certificates: digestCertificates(config), upstream, poll }
}

/** Returns one digest of the certificate files of an upstream, as they are now. */
function digestCertificates ({ caFile, certFile, keyFile }: NamedUpstream): string {
  const hash = createHash('sha256')
  for (const file of [caFile, certFile, keyFile]) hash.update(file === null ? '' : readFileSync(file)).update('\0')
  return hash.digest('hex')
}

/** Returns the settings of a connection: an upstream of one address connects there, whatever its name resolves to. */
export function withFixedAddress<T extends { readonly resolve: string }> (
  upstream: T
): Omit<T, 'resolve'> & { readonly resolve: Resolve | undefined } {
  const { resolve: address } = upstream
  const family = isIP(address)
  return { ...upstream, resolve: family === 0 ? undefined : async () => [{ address, family }] }
}

/** Returns a function that logs the state of an upstream if it differs from the last one. */
function stateLogOf (upstream: Upstream, log: Logger): () => void {
  let last: UpstreamState = 'unknown'
  return () => {
    const { state, stateReason: reason, name } = upstream
    if (state === last) return
    last = state
    logState(log, name, state, reason)
  }
}

function logState (log: Logger, upstream: string, state: UpstreamState, reason: string | undefined): void {
  switch (state) {
    case 'unknown':
      return
    case 'up':
      return log.info({ upstream }, 'upstream is up')
    case 'backing_off':
      return log.warn({ upstream, reason }, 'upstream is rate limiting varve')
    case 'down':
      return log.warn({ upstream, reason }, 'upstream is down')
    case 'quarantined':
      return log.error({ upstream, reason }, 'upstream serves another chain: quarantined')
  }
}

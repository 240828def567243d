import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { type Tracker } from '../chain/tracker.js'
import { type ChainVerifier } from '../chain/chain-verifier.js'
import { type Spaces } from '../chain/spaces.js'
import { Quarantine } from '../chain/quarantine.js'
import { FutureTimestampGuard } from '../chain/future-timestamp-guard.js'
import { TypedEvent } from '../typed-event.js'
import { HeadPoller, type UpstreamPoll } from '../upstreams/head-pollers.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type SendProbe, Upstream, type UpstreamState } from '../upstreams/upstream.js'
import { type Resolve } from '../upstreams/dns.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { UpstreamClient, type UpstreamMetrics } from '../upstreams/upstream-client.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { type UpstreamEvents } from './event-bus.js'

/** Parts that every monitored upstream needs. */
export interface MonitoredUpstreamOptions {
  readonly now: () => number
  readonly tracker: Tracker
  readonly pool: UpstreamPool
  readonly spaces: Spaces
  readonly chainVerifier: ChainVerifier
  readonly releases: UpstreamSoftwareReleases
  readonly metrics: UpstreamMetrics
  readonly events: UpstreamEvents
  readonly inFlight: InFlightBytes
  readonly cordons: ReadonlySet<string>
  readonly sendProbe: SendProbe
  readonly peerHeadAgeMs: () => number
}

/** Configured upstream with its health polling. */
export interface MonitoredUpstream extends UpstreamPoll {
  readonly config: NamedUpstream
  /** Digest of its certificate files, which a renewal changes under the same paths. */
  readonly certificates: string
}

/** Builds the client and the health polling of one upstream. */
export function monitorUpstream (
  config: NamedUpstream,
  { cache, head: { pollMs } }: Config,
  options: MonitoredUpstreamOptions
): MonitoredUpstream {
  const { now, tracker, pool, spaces, chainVerifier, releases, metrics, events, inFlight, cordons, peerHeadAgeMs } =
    options
  const connectionLost = new TypedEvent()
  const futureTimestampGuard = new FutureTimestampGuard(now, () => performance.timeOrigin + now())
  const client = new UpstreamClient({
    ...withFixedAddress(config),
    onConnectionLost: () => {
      connectionLost.publish()
    },
    maxBufferedBytes: cache.maxEntryMb * bytesPerMb,
    inFlight,
    now,
    acceptsTimestamp: usec => futureTimestampGuard.accepts(usec)
  }, metrics)
  const quarantine = new Quarantine(client, chainVerifier, now)
  const upstream = new Upstream(client, quarantine, now, {
    ...config,
    isCordoned: () => cordons.has(config.name)
  })
  const publishChange = stateChangesOf(upstream, events.stateChanged)
  const poll = new HeadPoller({
    upstream,
    fetch: async request => await pool.probe(upstream, request, options.sendProbe),
    heads: tracker,
    pollMs,
    peerHeadAgeMs,
    now,
    onPolled: publishChange,
    onRelease: release => {
      // Entries name the release that rendered them, so a change is published before the release counts as seen.
      if (release !== client.release) events.releaseChanged.publish({ upstream, release })
      releases.record(release, client.name)
    },
    onTick: () => {
      const { stamped } = upstream
      upstream.guard.reverifyIfDue(stamped).catch(() => {})
      if (upstream === pool.referenceUpstream && upstream.isVerified && stamped !== undefined) {
        spaces.renewIfDue(stamped).catch(() => {})
      }
      publishChange()
    }
  })
  connectionLost.subscribe(() => {
    if (quarantine.recordConnectionLost()) poll.poll().catch(() => {})
  })
  return { config, certificates: digestCertificates(config), upstream, poll }
}

/** Returns one digest of the certificate files of an upstream, as they are now. */
export function digestCertificates ({ caFile, certFile, keyFile }: NamedUpstream): string {
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

/** Returns a function that publishes the state of an upstream where it differs from the last one. */
function stateChangesOf (upstream: Upstream, stateChanged: UpstreamEvents['stateChanged']): () => void {
  let last: UpstreamState = 'unknown'
  return () => {
    const { state, stateReason: reason } = upstream
    if (state === last) return
    last = state
    stateChanged.publish({ upstream, state, reason })
  }
}

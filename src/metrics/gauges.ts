import { type Registry } from 'prom-client'
import { type CacheTier } from '../cache/tier.js'
import { type VersionWaits } from '../chain/version-waits.js'
import { type LowestRecentRequest } from '../proxy/history-forecast.js'
import { type Tracker } from '../chain/tracker.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type Upstream, upstreamStates } from '../upstreams/upstream.js'
import { type MetricName } from './definitions.js'
import { lagSecondsOf } from '../upstreams/ranking.js'
import { makeGauge, type LabelledValue } from './metric-factories.js'

/** Objects that gauges read at a scrape. */
export interface GaugeSources {
  readonly tracker: Tracker
  readonly versionWaits: Pick<VersionWaits, 'waiting'>
  readonly lowestRequested: LowestRecentRequest
  readonly tiers: ReadonlyArray<Pick<CacheTier<never, unknown>, 'name' | 'status'>>
  readonly upstreamPool: { readonly upstreams: readonly Upstream[] }
  readonly inFlight: Pick<InFlightBytes, 'bytes' | 'maxBytes'>
  /** Undefined if no Redis is configured. */
  readonly redis: { readonly isUp: boolean } | undefined
  /** Release of varve. */
  readonly version: string
  readonly isSandbox: boolean
  /** Present only on a TLS listener. */
  readonly certificate?: { readonly notAfterSeconds: number } | undefined
}

/** Source of the connection gauges. */
export interface ConnectionGaugeSource {
  readonly open: number
}

/** Registers the gauges, which are read at a scrape. */
export function addGauges (
  registry: Registry,
  { tracker, versionWaits, lowestRequested, tiers, upstreamPool, inFlight, redis, version, isSandbox, certificate }:
    GaugeSources
): void {
  const add = (name: MetricName, read: () => number | readonly LabelledValue[]): void => makeGauge(registry, name, read)
  const positionGauge = (read: (position: NonNullable<Tracker['position']>) => bigint) => (): number =>
    tracker.position === undefined ? NaN : Number(read(tracker.position))
  const each = (read: (upstream: Upstream) => number) => (): LabelledValue[] =>
    upstreamPool.upstreams.map(upstream => [{ upstream: upstream.client.name }, read(upstream)])
  add('varve_chain_info', () =>
    tracker.space === undefined
      ? []
      : [[{ chain_id: String(tracker.space.chainId), space: tracker.space.name }, 1]])
  add('varve_ledger_version', positionGauge(({ head }) => head.version))
  add('varve_ledger_oldest_version', positionGauge(({ oldest }) => oldest.version))
  add('varve_ledger_block_height', positionGauge(({ head }) => head.blockHeight))
  add('varve_ledger_oldest_block_height', positionGauge(({ oldest }) => oldest.blockHeight))
  add('varve_ledger_position_age_seconds', () => tracker.ageMs / 1000)
  add('varve_lowest_requested_version', positionGauge(position => lowestRequested.valueIn(position)))
  add('varve_waiting_for_version', () => versionWaits.waiting)
  add('varve_upstream_up', each(({ isUp }) => Number(isUp)))
  add(
    'varve_upstream_state',
    () =>
      upstreamPool.upstreams.flatMap(({ client: { name }, state }) =>
        upstreamStates.map((each): LabelledValue => [{ upstream: name, state: each }, Number(each === state)])
      )
  )
  add('varve_upstream_version', each(({ window }) => Number(window?.head ?? NaN)))
  add(
    'varve_upstream_lag_versions',
    each(({ window }) =>
      window === undefined ? NaN : Math.max(0, Number((tracker.position?.head.version ?? 0n) - window.head))
    )
  )
  add(
    'varve_upstream_lag_seconds',
    each(upstream => lagSecondsOf(upstream, upstreamPool.upstreams, tracker.servedStamp) ?? NaN)
  )
  add('varve_upstream_oldest_version', each(({ window }) => Number(window?.oldest ?? NaN)))
  add('varve_upstream_in_flight', each(({ client }) => client.limiter.inFlight))
  add('varve_upstream_max_concurrent', each(({ client }) => client.limiter.maxConcurrent))
  add('varve_upstream_waiting', each(({ client }) => client.limiter.queued))
  add('varve_upstream_slots_held_by_streams', each(({ client }) => client.limiter.streams))
  add('varve_in_flight_bytes', () => inFlight.bytes)
  add('varve_in_flight_max_bytes', () => inFlight.maxBytes)
  add('varve_redis_up', () => redis === undefined ? [] : Number(redis.isUp))
  if (certificate !== undefined) {
    add('varve_tls_certificate_not_after_seconds', () => certificate.notAfterSeconds)
  }
  add('varve_sandbox', () => Number(isSandbox))
  add('varve_workers', () => 1)
  addTierGauges(registry, tiers)
  add('varve_build_info', () => [[{ version }, 1]])
}

/** Registers the sizes of tiers; the primary process reports those that its workers share. */
export function addTierGauges (registry: Registry, tiers: GaugeSources['tiers']): void {
  const eachTier = (member: 'entries' | 'bytes' | 'maxBytes') => (): LabelledValue[] =>
    tiers.flatMap(({ name, status }) => {
      const value = status.isShared === true ? undefined : status[member]
      return value === undefined ? [] : [[{ tier: name }, value]]
    })
  makeGauge(registry, 'varve_cache_entries', eachTier('entries'))
  makeGauge(registry, 'varve_cache_bytes', eachTier('bytes'))
  makeGauge(registry, 'varve_cache_max_bytes', eachTier('maxBytes'))
}

/** Registers the gauges of the public listener: client connections, and the place of the level in its list. */
export function addListenerGauges (registry: Registry, clients: ConnectionGaugeSource, level: () => number): void {
  makeGauge(registry, 'varve_connections', () => clients.open)
  makeGauge(registry, 'varve_level', () => level())
}

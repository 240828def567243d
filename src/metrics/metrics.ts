import { collectDefaultMetrics, Registry } from 'prom-client'
import { type MissCause, missCauses } from '../cache/removals.js'
import { type LogTierName, type Store, tierNames, type StoreName } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { type VersionWaitResult, type VersionWaits } from '../chain/version-waits.js'
import { type TransactionWaitResult } from '../follow/follower.js'
import { type TailResult } from '../follow/tail-reader.js'
import { type TouchAllReason } from '../follow/transaction-digest.js'
import { type VerifyResult } from '../follow/verify-write-sets.js'
import { type ConnectionCutReason, metricGroups, metricList, type MetricName, namedIn } from './definitions.js'
import {
  type Counters,
  makeCollectedCounter,
  makeCounters,
  makeGauge,
  makeHistogram,
  startTier,
  type LabelledValue
} from './metric-factories.js'
import { type Counts, type FaultName, type Totals } from './recent-counts.js'
import { durationsOf, requestSeries, sumsOf, upstreamSeries } from './request-series.js'
import { type MetricFamilies } from './summed-metrics.js'
import { type LeaseResult } from '../cache/coalescer.js'
import { type HedgeResult } from '../upstreams/hedger.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type TokenSource } from '../upstreams/shared-rate.js'
import { lagSecondsOf } from '../upstreams/ranking.js'
import { type Upstream, upstreamStates } from '../upstreams/upstream.js'
import { type AuditResult, type ObservedResult } from '../proxy/audit.js'
import { type LowestRecentRequest } from '../proxy/pruned-reads.js'
import { hitNames, outcomeNames, type OutcomeName } from '../proxy/outcomes.js'
import { endpointNames, type EndpointName } from '../api/endpoints.js'
import { type NotStoredReason } from '../api/store-verdict.js'
import { type DiskOperation } from '../cache/disk-files.js'
import { type RedisOperation } from '../redis/operation-names.js'

/** Value of the `endpoint` label. */
export type EndpointLabel = EndpointName | 'other'

// Removes gauges with names of counters and labels from an open list (law 10: nothing grows without bound).
const removedDefaults = ['nodejs_active_handles', 'nodejs_active_requests', 'nodejs_active_resources'].flatMap(
  name => [name, `${name}_total`]
)

/** Objects that gauges read at a scrape. */
export interface GaugeSources {
  readonly tracker: Tracker
  readonly peers: { readonly hosts: number }
  readonly versionWaits: Pick<VersionWaits, 'waiting'>
  readonly lowestRequested: LowestRecentRequest
  readonly tiers: ReadonlyArray<Pick<Store<never, unknown>, 'name' | 'status'>>
  readonly upstreamPool: { readonly upstreams: readonly Upstream[] }
  readonly inFlight: Pick<InFlightBytes, 'bytes' | 'maxBytes'>
  /** Undefined if no Redis is configured. */
  readonly redis: { readonly isUp: boolean } | undefined
  /** Release of varve. */
  readonly version: string
  readonly isSandbox: boolean
  /** Prices of a million upstream requests, by endpoint. */
  readonly prices: Readonly<Record<string, number | undefined>>
  /** Present only on a TLS listener. */
  readonly certificate?: { readonly notAfterSeconds: number } | undefined
}

/** Metrics of one process, as definitions.ts lists them. */
export class Metrics {
  readonly registry = new Registry()
  readonly #requests = requestSeries(this.registry)
  // Counts in plain maps by client and outcome, since every hit comes here.
  readonly #clientRequests = new Map<string, Map<OutcomeName, number>>()
  readonly #clientBytes = new Map<string, number>()
  readonly #counters: Counters
  readonly #upstreamRequests = upstreamSeries(this.registry)
  readonly #prunedDistance = makeHistogram(this.registry, 'varve_pruned_distance_versions')
  readonly #redisSeconds = makeHistogram(this.registry, 'varve_redis_duration_seconds')
  readonly #tiers = new Set<StoreName>(['memory'])
  readonly #prunedBy = { cache: 0, local: 0, upstream: 0 }
  readonly #missedBy = Object.fromEntries(missCauses.map(cause => [cause, 0])) as Record<MissCause, number>
  readonly #faults: Record<FaultName, number> = {
    audit_different: 0,
    chain_reset: 0,
    descriptors_exhausted: 0,
    follow_different: 0
  }

  #following: FollowMetrics | undefined
  #lostLines = (): number => 0
  #prices: GaugeSources['prices'] = {}
  #wasLastReloadSuccessful = true

  constructor () {
    const { registry } = this
    collectDefaultMetrics({ register: registry })
    // Aggregates with the earliest start; the library would omit this gauge for several processes.
    Object.assign(registry.getSingleMetric('process_start_time_seconds') ?? {}, { aggregator: 'min' })
    for (const name of removedDefaults) registry.removeSingleMetric(name)
    makeCollectedCounter(
      registry,
      'varve_client_requests_total',
      () =>
        [...this.#clientRequests].flatMap(([client, outcomes]) =>
          [...outcomes].map(([outcome, count]): LabelledValue => [{ client, outcome }, count])
        )
    )
    makeCollectedCounter(
      registry,
      'varve_client_response_bytes_total',
      () => [...this.#clientBytes].map(([client, bytes]): LabelledValue => [{ client }, bytes])
    )
    makeCollectedCounter(registry, 'varve_reads_saved_total', () => {
      const { endpoints } = sumsOf(this.#requests)
      return endpointNames.map((endpoint): LabelledValue => [{ endpoint }, endpoints[endpoint]?.saved ?? 0])
    })
    makeCollectedCounter(registry, 'varve_savings_total', () => {
      const { endpoints } = sumsOf(this.#requests)
      return endpointNames.map((endpoint): LabelledValue => [
        { endpoint },
        this.#priceOf(endpoint, endpoints[endpoint]?.saved ?? 0)
      ])
    })
    makeCollectedCounter(registry, 'varve_log_lines_lost_total', () => [[{}, this.#lostLines()]])
    // The primary counts reloads; workers keep their initial 1, and `min` shows the primary's value.
    makeGauge(registry, 'varve_config_last_reload_successful', () => Number(this.#wasLastReloadSuccessful))
    this.#counters = makeCounters(registry, metricList.filter(({ name }) => !(name in metricGroups.Following)))
  }

  /** Registers the gauges, which are read at a scrape, and starts the counters of the tiers in use. */
  registerGauges (sources: GaugeSources): void {
    const { tracker, versionWaits, lowestRequested, tiers, upstreamPool, inFlight, redis, peers, certificate } = sources
    this.#prices = sources.prices
    const add = (name: MetricName, read: () => number | readonly LabelledValue[]): void =>
      makeGauge(this.registry, name, read)
    const positionGauge = (read: (position: NonNullable<Tracker['position']>) => bigint) => (): number =>
      tracker.position === undefined ? NaN : Number(read(tracker.position))
    const each = (read: (upstream: Upstream) => number) => (): LabelledValue[] =>
      upstreamPool.upstreams.map(upstream => [{ upstream: upstream.name }, read(upstream)])
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
        upstreamPool.upstreams.flatMap(({ name, state }) =>
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
    add('varve_upstream_in_flight', each(({ limiter }) => limiter.inFlight))
    add('varve_upstream_max_concurrent', each(({ limiter }) => limiter.maxConcurrent))
    add(
      'varve_upstream_budget_units',
      () =>
        upstreamPool.upstreams.flatMap(({ name, limiter: { budget } }): LabelledValue[] =>
          budget === undefined
            ? []
            : [[{ upstream: name, kind: 'left' }, budget.left], [{ upstream: name, kind: 'max' }, budget.rate.burst]]
        )
    )
    add('varve_upstream_waiting', each(({ limiter }) => limiter.queued))
    add('varve_upstream_slots_held_by_streams', each(({ limiter }) => limiter.streams))
    add('varve_in_flight_bytes', () => inFlight.bytes)
    add('varve_in_flight_max_bytes', () => inFlight.maxBytes)
    add('varve_redis_up', () => redis === undefined ? [] : Number(redis.isUp))
    if (certificate !== undefined) add('varve_tls_certificate_not_after_seconds', () => certificate.notAfterSeconds)
    add('varve_sandbox', () => Number(sources.isSandbox))
    add('varve_workers', () => 1)
    add('varve_replicas', () => peers.hosts)
    add('varve_build_info', () => [[{ version: sources.version }, 1]])
    this.#addTiers(tiers)
  }

  #priceOf (endpoint: string, requests: number): number {
    return (this.#prices[endpoint] ?? this.#prices['default'] ?? 0) * requests / 1e6
  }

  /** Registers the sizes of tiers and starts their counters. */
  #addTiers (tiers: GaugeSources['tiers']): void {
    const eachTier = (member: 'entries' | 'bytes' | 'maxBytes') => (): LabelledValue[] =>
      tiers.flatMap(({ name, status }) => {
        const value = status[member]
        return value === undefined ? [] : [[{ tier: name }, value]]
      })
    makeGauge(this.registry, 'varve_cache_entries', eachTier('entries'))
    makeGauge(this.registry, 'varve_cache_bytes', eachTier('bytes'))
    makeGauge(this.registry, 'varve_cache_max_bytes', eachTier('maxBytes'))
    for (const { name } of tiers) {
      this.#tiers.add(name)
      startTier(this.registry, name)
    }
  }

  /** Registers the gauges of the public listener: client connections, and the place of the level in its list. */
  registerListenerGauges (
    clients: { readonly open: number, readonly waiting: number | undefined },
    level: () => number
  ): void {
    makeGauge(this.registry, 'varve_connections', () => clients.open)
    makeGauge(this.registry, 'varve_connections_waiting', () => {
      const { waiting } = clients
      return waiting === undefined ? [] : [[{}, waiting]]
    })
    makeGauge(this.registry, 'varve_level', level)
  }

  /** Counters of following, which exist from the first configuration that follows. */
  following (sources: FollowGaugeSources): FollowMetrics {
    this.#following ??= followMetricsOf(this.registry, sources, () => this.#faults.follow_different++)
    return this.#following
  }

  get contentType (): string {
    return this.registry.contentType
  }

  /** Returns all metrics for another process to sum. */
  async snapshot (): Promise<MetricFamilies> {
    return await this.registry.getMetricsAsJSON() as unknown as MetricFamilies
  }

  /** Returns all metrics in Prometheus' text format. */
  async text (): Promise<string> {
    return await this.registry.metrics()
  }

  /** Requests since the start, for the status page. */
  get totals (): Totals {
    const { endpoints } = sumsOf(this.#requests)
    return {
      endpoints,
      clients: Object.fromEntries(
        [...this.#clientBytes].map(([client, bytes]) => [
          client,
          {
            requests: [...this.#clientRequests.get(client)?.values() ?? []].reduce((sum, each) => sum + each, 0),
            bytes
          }
        ])
      ),
      savings: Object.entries(endpoints).reduce((sum, [name, { saved }]) => sum + this.#priceOf(name, saved), 0),
      hits: durationsOf(this.#requests, outcome => outcome.startsWith('hit_')),
      misses: durationsOf(this.#requests, outcome => outcome === 'miss')
    }
  }

  /** Counts for the recent history, with what alerts page for, read without the library's conversion. */
  get countsWithFaults (): Counts {
    const { outcomes, serverErrors } = sumsOf(this.#requests)
    return {
      outcomes,
      pruned: { ...this.#prunedBy },
      misses: { ...this.#missedBy },
      responses: { server_error: serverErrors },
      faults: { ...this.#faults }
    }
  }

  /** Counts a response. */
  answered (
    endpoint: EndpointLabel,
    outcome: OutcomeName,
    status: number,
    tookSeconds: number,
    bytes = 0,
    client?: string
  ): void {
    this.#requests.add(endpoint, outcome, status, tookSeconds, bytes)
    if (client !== undefined) this.#addClientRequests(client, outcome, 1, bytes)
  }

  /** Creates the series of configured clients at 0, so that their first request shows as an increase. */
  addClients (clients: readonly string[]): void {
    const absent = new Set<string>(tierNames.filter(tier => !this.#tiers.has(tier)).map(tier => hitNames[tier]))
    const outcomes = outcomeNames.filter(outcome => !absent.has(outcome))
    for (const client of clients) for (const outcome of outcomes) this.#addClientRequests(client, outcome, 0, 0)
  }

  #addClientRequests (client: string, outcome: OutcomeName, count: number, bytes: number): void {
    let outcomes = this.#clientRequests.get(client)
    if (outcomes === undefined) this.#clientRequests.set(client, outcomes = new Map<OutcomeName, number>())
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count)
    this.#clientBytes.set(client, (this.#clientBytes.get(client) ?? 0) + bytes)
  }

  readonly limited = (by: 'address' | 'key'): void => this.#counters.varve_limited_total.inc({ by })
  readonly leased = (kind: 'fetch' | 'tail', result: LeaseResult): void =>
    this.#counters.varve_leases_total.inc({ kind, result })
  readonly hedged = (result: HedgeResult): void => this.#counters.varve_hedges_total.inc({ result })
  readonly staleLatest = (): void => this.#counters.varve_stale_latest_total.inc()
  readonly shed = (): void => this.#counters.varve_shed_total.inc()
  readonly overBudget = (): void => this.#counters.varve_in_flight_rejected_total.inc()
  readonly waited = (result: VersionWaitResult): void => this.#counters.varve_version_waits_total.inc({ result })
  readonly awaitedTransaction = (result: TransactionWaitResult): void =>
    this.#counters.varve_transaction_waits_total.inc({ result })
  readonly wrote = (tier: StoreName): void => this.#counters.varve_cache_writes_total.inc({ tier })
  readonly evicted = (tier: StoreName): void => this.#counters.varve_cache_evictions_total.inc({ tier })
  readonly foundCorrupt = (): void => this.#counters.varve_corrupt_entries_total.inc()
  /** Counts an entry that a log could not take. */
  readonly dropped = (tier: LogTierName): void => this.#counters.varve_cache_writes_dropped_total.inc({ tier })
  readonly diskFailed = (operation: DiskOperation): void => this.#counters.varve_disk_errors_total.inc({ operation })
  readonly redisFailed = (operation: RedisOperation): void => this.#counters.varve_redis_errors_total.inc({ operation })

  readonly redisCalled = (operation: RedisOperation, tookSeconds: number): void =>
    this.#redisSeconds.observe({ operation }, tookSeconds)

  readonly notStored = (endpoint: EndpointName, reason: NotStoredReason): void =>
    this.#counters.varve_not_stored_total.inc({ endpoint, reason })

  readonly observed = (endpoint: EndpointName, result: ObservedResult): void =>
    this.#following?.observed(endpoint, result)

  readonly connectionCut = (reason: ConnectionCutReason): void =>
    this.#counters.varve_connections_cut_total.inc({ reason })

  readonly brokeOffStream = (upstream: string): void =>
    this.#counters.varve_upstream_streams_broken_off_total.inc({ upstream })

  readonly tookTokens = (upstream: string, source: TokenSource, count: number): void =>
    this.#counters.varve_upstream_tokens_total.inc({ upstream, source }, count)

  readonly traced = (result: 'sent' | 'failed' | 'dropped', spans: number): void =>
    this.#counters.varve_trace_spans_total.inc({ result }, spans)

  fetched (upstream: string, endpoint: string, status: string, tookSeconds: number, bytes = 0): void {
    if (status === 'exhausted') this.#faults.descriptors_exhausted++
    this.#upstreamRequests.add(upstream, endpoint, status, tookSeconds, bytes)
  }

  missed (endpoint: EndpointName, cause: MissCause): void {
    this.#missedBy[cause]++
    this.#counters.varve_misses_total.inc({ endpoint, cause })
  }

  pruned (endpoint: EndpointLabel, answer: keyof Counts['pruned'], distanceVersions: bigint | undefined): void {
    this.#prunedBy[answer]++
    this.#counters.varve_pruned_requests_total.inc({ endpoint, answer })
    if (distanceVersions !== undefined) this.#prunedDistance.observe({ endpoint }, Number(distanceVersions))
  }

  audited (result: AuditResult): void {
    if (result === 'different') this.#faults.audit_different++
    this.#counters.varve_audit_total.inc({ result })
  }

  chainReset (): void {
    this.#faults.chain_reset++
    this.#counters.varve_chain_resets_total.inc()
  }

  /** Metrics of the process itself. */
  readonly process = {
    /** Sets the source of the count of lost log lines. */
    countLostLines: (lost: () => number): void => {
      this.#lostLines = lost
    },
    workerLost: (): void => this.#counters.varve_workers_lost_total.inc(),
    /** Counts a time that the process ran out of file descriptors. */
    descriptorsExhausted: (): void => {
      this.#faults.descriptors_exhausted++
      this.#counters.varve_descriptors_exhausted_total.inc()
    },
    /** Counts an unexpected error of a request, an unhandled rejection or an uncaught exception. */
    unhandled: (kind: 'request' | 'rejection' | 'exception'): void =>
      this.#counters.varve_unhandled_total.inc({ kind }),
    reloaded: (result: 'reloaded' | 'rejected'): void => {
      this.#counters.varve_config_reloads_total.inc({ result })
      this.#wasLastReloadSuccessful = result === 'reloaded'
    }
  }
}

/** Objects that the gauges of following read at a scrape. */
interface FollowGaugeSources {
  readonly headVersion: () => bigint | undefined
  readonly lagSeconds: () => number | undefined
}

/** Counters of following. */
export type FollowMetrics = ReturnType<typeof followMetricsOf>

function followMetricsOf (
  registry: Registry,
  { headVersion, lagSeconds }: FollowGaugeSources,
  onDifferent: () => void
) {
  const counters = makeCounters(registry, namedIn(metricGroups.Following))
  makeGauge(registry, 'varve_follow_head_version', () => Number(headVersion() ?? NaN))
  makeGauge(registry, 'varve_follow_lag_seconds', () => lagSeconds() ?? NaN)
  return {
    /** Counts a reading of the tail, with the versions that it brought. */
    read: (result: TailResult, versions: number): void => {
      counters.varve_follow_reads_total.inc({ result })
      counters.varve_follow_versions_total.inc(versions)
    },
    readBytes: (bytes: number): void => counters.varve_follow_bytes_total.inc(bytes),
    touchedAll: (reason: TouchAllReason): void => counters.varve_follow_touched_all_total.inc({ reason }),
    observed: (endpoint: EndpointName, result: ObservedResult): void => {
      if (result === 'different') onDifferent()
      counters.varve_follow_observed_total.inc({ endpoint, result })
    },
    verified: (result: VerifyResult): void => {
      if (result === 'different') onDifferent()
      counters.varve_follow_verified_total.inc({ result })
    }
  }
}

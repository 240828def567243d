import { Registry } from 'prom-client'
import { tierNames, type TierName } from '../cache/tier.js'
import { type VersionWaitResult } from '../chain/version-waits.js'
import { type ConnectionCutReason } from './connection-cut-reasons.js'
import { addGauges, addListenerGauges, addTierGauges, type GaugeSources, type ConnectionGaugeSource } from './gauges.js'
import { definitionOf, endpointLabels } from './definitions.js'
import { type FollowGaugeSources, FollowMetrics } from './follow-metrics.js'
import { makeCollectedCounter, makeCounter, makeHistogram, startTier, type LabelledValue } from './metric-factories.js'
import { ProcessMetrics } from './process-metrics.js'
import { type Counts, type FaultName } from './recent-counts.js'
import { RequestSeries, ClientSeries } from './request-series.js'
import { statusLabelOf } from './status-labels.js'
import { type MetricFamilies } from './summed-metrics.js'
import { type Totals } from './totals.js'
import { type HedgeResult } from '../upstreams/hedger.js'
import { type AuditResult } from '../proxy/audit-sampler.js'
import { hitNames, isSaved, outcomeNames, type OutcomeName } from '../proxy/outcomes.js'
import { endpointNames, type EndpointName } from '../api/endpoints.js'
import { type NotStoredReason } from '../api/store-verdict.js'
import { type DiskOperation } from '../cache/disk-files.js'
import { type RedisOperation } from '../redis/operation-names.js'

/** Value of the `endpoint` label. */
export type EndpointLabel = EndpointName | 'other'

/** Metrics of one process, as definitions.ts lists them. */
export class Metrics {
  readonly registry = new Registry()

  readonly #requests = new RequestSeries(this.registry, {
    requests: definitionOf('varve_requests_total'),
    seconds: definitionOf('varve_request_duration_seconds'),
    bounds: definitionOf('varve_request_duration_seconds').bounds
  })

  readonly #clientRequests = new ClientSeries(this.registry)
  readonly #limited = makeCounter(this.registry, 'varve_limited_total')
  readonly #upstreamRequests = makeCounter(this.registry, 'varve_upstream_requests_total')
  readonly #upstreamSeconds = makeHistogram(this.registry, 'varve_upstream_request_duration_seconds')
  readonly #hedges = makeCounter(this.registry, 'varve_hedges_total')
  readonly #pruned = makeCounter(this.registry, 'varve_pruned_requests_total')
  readonly #prunedDistance = makeHistogram(this.registry, 'varve_pruned_distance_versions')
  readonly #evictions = makeCounter(this.registry, 'varve_cache_evictions_total')
  readonly #writes = makeCounter(this.registry, 'varve_cache_writes_total')
  readonly #notStored = makeCounter(this.registry, 'varve_not_stored_total')
  readonly #staleLatest = makeCounter(this.registry, 'varve_stale_latest_total')
  readonly #waits = makeCounter(this.registry, 'varve_version_waits_total')
  readonly #audits = makeCounter(this.registry, 'varve_audit_total')
  readonly #resets = makeCounter(this.registry, 'varve_chain_resets_total')
  readonly #corrupt = makeCounter(this.registry, 'varve_corrupt_entries_total')
  readonly #writesDropped = makeCounter(this.registry, 'varve_cache_writes_dropped_total')
  readonly #diskErrors = makeCounter(this.registry, 'varve_disk_errors_total')
  readonly #redisErrors = makeCounter(this.registry, 'varve_redis_errors_total')
  readonly #redisSeconds = makeHistogram(this.registry, 'varve_redis_duration_seconds')
  readonly #connectionsCut = makeCounter(this.registry, 'varve_connections_cut_total')
  readonly #shed = makeCounter(this.registry, 'varve_shed_total')
  readonly #overBudget = makeCounter(this.registry, 'varve_in_flight_rejected_total')
  readonly #brokenOff = makeCounter(this.registry, 'varve_upstream_streams_broken_off_total')

  readonly #spans = makeCounter(this.registry, 'varve_trace_spans_total')
  #following: FollowMetrics | undefined

  readonly #prunedBy = { cache: 0, local: 0, upstream: 0 }
  readonly #faults: Record<FaultName, number> = {
    audit_different: 0,
    chain_reset: 0,
    descriptors_exhausted: 0,
    follow_different: 0
  }

  readonly process = new ProcessMetrics(this.registry)

  readonly #tiers = new Set<TierName>(['memory'])

  constructor () {
    makeCollectedCounter(
      this.registry,
      'varve_reads_saved_total',
      () =>
        endpointNames.map((endpoint): LabelledValue => [{ endpoint }, this.#requests.countsOf(endpoint, isSaved).saved])
    )
  }

  /** Registers the gauges, which are read at a scrape, and starts the counters of the tiers in use. */
  registerGauges (sources: GaugeSources): void {
    addGauges(this.registry, sources)
    this.#startTiers(sources.tiers)
  }

  /** Registers the sizes of tiers in a process without other gauges, and starts the counters of these tiers. */
  addTiers (tiers: GaugeSources['tiers']): void {
    addTierGauges(this.registry, tiers)
    this.#startTiers(tiers)
  }

  #startTiers (tiers: GaugeSources['tiers']): void {
    for (const { name } of tiers) {
      this.#tiers.add(name)
      startTier(this.registry, name)
    }
  }

  /** Counters of following, which exist from the first configuration that follows. */
  following (sources: FollowGaugeSources): FollowMetrics {
    this.#following ??= new FollowMetrics(this.registry, sources)
    return this.#following
  }

  /** Registers the gauges of the public listener. */
  registerListenerGauges (clients: ConnectionGaugeSource, level: () => number): void {
    addListenerGauges(this.registry, clients, level)
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
    return {
      endpoints: Object.fromEntries(endpointLabels.map(name => [name, this.#requests.countsOf(name, isSaved)])),
      hits: this.#requests.durations(outcome => outcome.startsWith('hit_')),
      misses: this.#requests.durations(outcome => outcome === 'miss')
    }
  }

  /** Counts for the recent history, read every few seconds without the library's conversion. */
  get counts (): Counts {
    return {
      outcomes: Object.fromEntries(outcomeNames.map(name => [name, this.#requests.total(name)])) as Counts['outcomes'],
      pruned: { ...this.#prunedBy }
    }
  }

  /** Counts for the recent history with what alerts page for. */
  get countsWithFaults (): Counts {
    return {
      ...this.counts,
      responses: { server_error: this.#requests.serverErrors },
      faults: {
        ...this.#faults,
        descriptors_exhausted: this.#faults.descriptors_exhausted + this.process.timesExhausted,
        follow_different: this.#following?.different ?? 0
      }
    }
  }

  /** Counts a response. */
  answered (
    endpoint: EndpointLabel,
    outcome: OutcomeName,
    status: number,
    tookSeconds: number,
    client?: string
  ): void {
    this.#requests.add(endpoint, outcome, status, tookSeconds)
    if (client !== undefined) this.#clientRequests.add(client, outcome)
  }

  /** Creates the series of configured clients at 0. */
  addClients (clients: readonly string[]): void {
    const absent = new Set<string>(tierNames.filter(tier => !this.#tiers.has(tier)).map(tier => hitNames[tier]))
    const outcomes = outcomeNames.filter(outcome => !absent.has(outcome))
    for (const client of clients) for (const outcome of outcomes) this.#clientRequests.zero(client, outcome)
  }

  limited (by: 'address' | 'key'): void {
    this.#limited.inc({ by })
  }

  fetched (upstream: string, endpoint: string, status: string, tookSeconds: number): void {
    if (status === 'exhausted') this.#faults.descriptors_exhausted++
    this.#upstreamRequests.inc({ upstream, endpoint, status: statusLabelOf(status) })
    this.#upstreamSeconds.observe({ upstream }, tookSeconds)
  }

  hedged (result: HedgeResult): void {
    this.#hedges.inc({ result })
  }

  notStored (endpoint: EndpointName, reason: NotStoredReason): void {
    this.#notStored.inc({ endpoint, reason })
  }

  pruned (endpoint: EndpointLabel, answer: keyof Counts['pruned'], distanceVersions: bigint | undefined): void {
    this.#prunedBy[answer]++
    this.#pruned.inc({ endpoint, answer })
    if (distanceVersions !== undefined) this.#prunedDistance.observe({ endpoint }, Number(distanceVersions))
  }

  staleLatest (): void {
    this.#staleLatest.inc()
  }

  connectionCut (reason: ConnectionCutReason): void {
    this.#connectionsCut.inc({ reason })
  }

  shed (): void {
    this.#shed.inc()
  }

  overBudget (): void {
    this.#overBudget.inc()
  }

  brokeOffStream (upstream: string): void {
    this.#brokenOff.inc({ upstream })
  }

  audited (result: AuditResult): void {
    if (result === 'different') this.#faults.audit_different++
    this.#audits.inc({ result })
  }

  waited (result: VersionWaitResult): void {
    this.#waits.inc({ result })
  }

  chainReset (): void {
    this.#faults.chain_reset++
    this.#resets.inc()
  }

  wrote (tier: TierName): void {
    this.#writes.inc({ tier })
  }

  foundCorrupt (): void {
    this.#corrupt.inc()
  }

  /** Counts an entry that the disk could not take. */
  dropped (): void {
    this.#writesDropped.inc({ tier: 'disk' })
  }

  diskFailed (operation: DiskOperation): void {
    this.#diskErrors.inc({ operation })
  }

  redisCalled (operation: RedisOperation, tookSeconds: number): void {
    this.#redisSeconds.observe({ operation }, tookSeconds)
  }

  redisFailed (operation: RedisOperation): void {
    this.#redisErrors.inc({ operation })
  }

  traced (result: 'sent' | 'failed' | 'dropped', spans: number): void {
    this.#spans.inc({ result }, spans)
  }

  evicted (tier: TierName): void {
    this.#evictions.inc({ tier })
  }
}

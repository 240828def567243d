import { Registry } from 'prom-client'
import { type Arrival } from '../chain/arrivals.js'
import { ClientSeries } from './client-series.js'
import { type CutReason } from './cut-reasons.js'
import { addGauges, addGaugesOf, type Observed, type ObservedClients } from './gauges.js'
import { endpointLabels, rowOf } from './list.js'
import { counterOf, histogramOf } from './made.js'
import { ProcessMetrics } from './process-metrics.js'
import { type Counts } from './recent.js'
import { RequestSeries } from './request-series.js'
import { statusLabelOf } from './statuses.js'
import { type ToldMetrics } from './summed.js'
import { type HedgeResult } from '../upstreams/hedges.js'
import { type AuditResult } from '../proxy/auditor.js'
import { outcomeNames, type OutcomeName } from '../proxy/outcomes.js'
import { type EndpointName } from '../api/endpoints.js'
import { type NotKeptReason } from '../api/lifetime.js'
import { type RedisOperation } from '../redis/operations.js'

/** The endpoint label: a known read, or everything else. */
export type EndpointLabel = EndpointName | 'other'

/** What varve counts and measures, made of the list of all metrics. */
export class Metrics {
  readonly registry = new Registry()

  readonly #requests = new RequestSeries(this.registry, {
    requests: rowOf('varve_requests_total'),
    seconds: rowOf('varve_request_duration_seconds'),
    bounds: rowOf('varve_request_duration_seconds').bounds
  })

  readonly #clientRequests = new ClientSeries(this.registry)
  readonly #limited = counterOf(this.registry, 'varve_limited_total')
  readonly #upstreamRequests = counterOf(this.registry, 'varve_upstream_requests_total')
  readonly #upstreamSeconds = histogramOf(this.registry, 'varve_upstream_request_duration_seconds')
  readonly #hedges = counterOf(this.registry, 'varve_hedges_total')
  readonly #pruned = counterOf(this.registry, 'varve_pruned_requests_total')
  readonly #prunedDistance = histogramOf(this.registry, 'varve_pruned_distance_versions')
  readonly #evictions = counterOf(this.registry, 'varve_cache_evictions_total')
  readonly #writes = counterOf(this.registry, 'varve_cache_writes_total')
  readonly #notStored = counterOf(this.registry, 'varve_not_stored_total')
  readonly #staleLatest = counterOf(this.registry, 'varve_stale_latest_total')
  readonly #waits = counterOf(this.registry, 'varve_version_waits_total')
  readonly #audits = counterOf(this.registry, 'varve_audit_total')
  readonly #resets = counterOf(this.registry, 'varve_chain_resets_total')
  readonly #corrupt = counterOf(this.registry, 'varve_corrupt_entries_total')
  readonly #redisErrors = counterOf(this.registry, 'varve_redis_errors_total')
  readonly #redisSeconds = histogramOf(this.registry, 'varve_redis_duration_seconds')
  readonly #cut = counterOf(this.registry, 'varve_connections_cut_total')
  readonly #shed = counterOf(this.registry, 'varve_shed_total')

  readonly #prunedBy = { cache: 0, local: 0, upstream: 0 }

  readonly process = new ProcessMetrics(this.registry)

  constructor () {
    for (const endpoint of endpointLabels) for (const outcome of outcomeNames) this.#requests.zero(endpoint, outcome)
  }

  /** Registers the gauges, which are read when they are scraped. */
  observe (observed: Observed): void {
    addGauges(this.registry, observed)
  }

  /** The same of clients' connections. */
  observeClients (clients: ObservedClients): void {
    addGaugesOf(this.registry, clients)
  }

  get contentType (): string {
    return this.registry.contentType
  }

  /** All of them as another process sums them up. */
  async told (): Promise<ToldMetrics> {
    return await this.registry.getMetricsAsJSON() as unknown as ToldMetrics
  }

  /** All of them as Prometheus reads them. */
  async text (): Promise<string> {
    return await this.registry.metrics()
  }

  /** What the last minutes are told by: numbers, with no form of the library's to be made first. */
  get counts (): Counts {
    return {
      outcomes: Object.fromEntries(outcomeNames.map(name => [name, this.#requests.total(name)])) as Counts['outcomes'],
      pruned: { ...this.#prunedBy }
    }
  }

  answered (endpoint: EndpointLabel, outcome: OutcomeName, status: number, tookSeconds: number, client?: string): void {
    this.#requests.add(endpoint, outcome, status, tookSeconds)
    if (client !== undefined) this.#clientRequests.add(client, outcome)
  }

  /** Has every client of the configuration be counted from 0. */
  knows (clients: readonly string[]): void {
    for (const client of clients) for (const outcome of outcomeNames) this.#clientRequests.zero(client, outcome)
  }

  limited (by: 'address' | 'key'): void {
    this.#limited.inc({ by })
  }

  asked (upstream: string, endpoint: string, status: string, tookSeconds: number): void {
    this.#upstreamRequests.inc({ upstream, endpoint, status: statusLabelOf(status) })
    this.#upstreamSeconds.observe({ upstream }, tookSeconds)
  }

  hedged (result: HedgeResult): void {
    this.#hedges.inc({ result })
  }

  notKept (endpoint: EndpointName, reason: NotKeptReason): void {
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

  cut (reason: CutReason): void {
    this.#cut.inc({ reason })
  }

  shed (): void {
    this.#shed.inc()
  }

  audited (result: AuditResult): void {
    this.#audits.inc({ result })
  }

  waited (result: Arrival): void {
    this.#waits.inc({ result })
  }

  reset (): void {
    this.#resets.inc()
  }

  wrote (): void {
    this.#writes.inc({ tier: 'memory' })
  }

  wroteShared (): void {
    this.#writes.inc({ tier: 'redis' })
  }

  foundCorrupt (): void {
    this.#corrupt.inc()
  }

  redisAsked (operation: RedisOperation, tookSeconds: number): void {
    this.#redisSeconds.observe({ operation }, tookSeconds)
  }

  redisFailed (operation: RedisOperation): void {
    this.#redisErrors.inc({ operation })
  }

  evicted (): void {
    this.#evictions.inc({ tier: 'memory' })
  }
}

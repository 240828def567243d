import { Counter, Histogram, Registry } from 'prom-client'
import { type Arrival, arrivalResults } from './ledger/arrivals.js'
import { ClientSeries } from './metrics/client-series.js'
import { type CutReason, cutReasons } from './metrics/cut-reasons.js'
import { addGauges, addGaugesOf, type Observed, type ObservedClients } from './metrics/gauges.js'
import { ProcessMetrics } from './metrics/process-metrics.js'
import { RequestSeries } from './metrics/request-series.js'
import { type ToldMetrics } from './metrics/summed.js'
import { type HedgeResult, hedgeResults } from './nodes/hedges.js'
import { type AuditResult, auditResults } from './proxy/auditor.js'
import { outcomeNames, type OutcomeName } from './proxy/outcomes.js'
import { endpointNames, type EndpointName } from './reads/endpoints.js'
import { notKeptReasons, type NotKeptReason } from './reads/lifetime.js'
import { type RedisOperation, redisOperations } from './redis/operations.js'

/** The endpoint label: a known read, or everything else. */
export type EndpointLabel = EndpointName | 'other'

const endpointLabels: readonly EndpointLabel[] = [...endpointNames, 'other']
const seconds = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const versions = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]

/** Every metric that varve has, in one list; the names are the contract's. */
export class Metrics {
  readonly registry = new Registry()
  readonly #at = { registers: [this.registry] }

  readonly #requests = new RequestSeries(this.registry, {
    requests: { name: 'varve_requests_total', help: 'Requests answered, by how.' },
    seconds: { name: 'varve_request_duration_seconds', help: 'Time from a request to its answer.' },
    bounds: seconds
  })

  readonly #clientRequests = new ClientSeries(this.registry, { name: 'varve_client_requests_total', help: 'Requests of clients that sent a key of the configuration, by its name and by how they were answered.' })
  readonly #limited = new Counter({ ...this.#at, name: 'varve_limited_total', help: 'Requests refused since their client has asked for too much, by what it is known.', labelNames: ['by'] })

  readonly #upstreamRequests = new Counter({ ...this.#at, name: 'varve_upstream_requests_total', help: 'Requests sent to a node, by its status or by how it failed.', labelNames: ['upstream', 'endpoint', 'status'] })
  readonly #upstreamSeconds = new Histogram({ ...this.#at, name: 'varve_upstream_request_duration_seconds', help: 'Time a node took to answer.', labelNames: ['upstream'], buckets: seconds })
  readonly #hedges = new Counter({ ...this.#at, name: 'varve_hedges_total', help: 'Reads that were asked of a second node since the first took long, by what came of it.', labelNames: ['result'] })
  readonly #pruned = new Counter({ ...this.#at, name: 'varve_pruned_requests_total', help: 'Requests for history that the nodes have pruned, by who answered.', labelNames: ['endpoint', 'answer'] })
  readonly #prunedDistance = new Histogram({ ...this.#at, name: 'varve_pruned_distance_versions', help: 'How far below the oldest version a request was.', labelNames: ['endpoint'], buckets: versions })
  readonly #evictions = new Counter({ ...this.#at, name: 'varve_cache_evictions_total', help: 'Entries that made room for others.', labelNames: ['tier'] })
  readonly #writes = new Counter({ ...this.#at, name: 'varve_cache_writes_total', help: 'Entries kept.', labelNames: ['tier'] })
  readonly #notKept = new Counter({ ...this.#at, name: 'varve_not_kept_total', help: 'Answers that were not kept, by the reason.', labelNames: ['endpoint', 'reason'] })
  readonly #staleLatest = new Counter({ ...this.#at, name: 'varve_stale_latest_total', help: 'Fetches of what moves that brought an answer from behind a position already shown.' })
  readonly #waits = new Counter({ ...this.#at, name: 'varve_version_waits_total', help: 'Reads that waited for the fleet to reach a version, by whether it did in time.', labelNames: ['result'] })
  readonly #audits = new Counter({ ...this.#at, name: 'varve_audit_total', help: 'Answers from the cache that were read again from a node, by what came of comparing them.', labelNames: ['result'] })
  readonly #resets = new Counter({ ...this.#at, name: 'varve_chain_resets_total', help: 'Times that the chain turned out to be another one.' })

  readonly #corrupt = new Counter({ ...this.#at, name: 'varve_corrupt_entries_total', help: 'Shared entries that were not what was written under their key.' })
  readonly #redisErrors = new Counter({ ...this.#at, name: 'varve_redis_errors_total', help: 'What Redis did not do, or not in time.', labelNames: ['operation'] })
  readonly #redisSeconds = new Histogram({ ...this.#at, name: 'varve_redis_duration_seconds', help: 'Time Redis took.', labelNames: ['operation'], buckets: seconds })

  readonly #cut = new Counter({ ...this.#at, name: 'varve_connections_cut_total', help: 'Connections of clients that were ended before the client would have, by why.', labelNames: ['reason'] })
  readonly #shed = new Counter({ ...this.#at, name: 'varve_shed_total', help: 'Reads that were refused since no hit, while the event loop was late.' })

  readonly process = new ProcessMetrics(this.registry)

  constructor () {
    // A series that exists from the start, at 0, is one that an alert can be written on.
    for (const endpoint of endpointLabels) {
      for (const outcome of outcomeNames) this.#requests.zero(endpoint, outcome)
      for (const reason of notKeptReasons) this.#notKept.inc({ endpoint, reason }, 0)
      for (const answer of ['cache', 'local', 'upstream']) this.#pruned.inc({ endpoint, answer }, 0)
      this.#prunedDistance.zero({ endpoint })
    }
    for (const by of ['address', 'key']) this.#limited.inc({ by }, 0)
    for (const result of arrivalResults) this.#waits.inc({ result }, 0)
    for (const result of auditResults) this.#audits.inc({ result }, 0)
    for (const result of hedgeResults) this.#hedges.inc({ result }, 0)
    for (const reason of cutReasons) this.#cut.inc({ reason }, 0)
    this.#evictions.inc({ tier: 'memory' }, 0)
    for (const tier of ['memory', 'redis']) this.#writes.inc({ tier }, 0)
    for (const operation of redisOperations) {
      this.#redisErrors.inc({ operation }, 0)
      this.#redisSeconds.zero({ operation })
    }
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
    this.#upstreamRequests.inc({ upstream, endpoint, status })
    this.#upstreamSeconds.observe({ upstream }, tookSeconds)
  }

  hedged (result: HedgeResult): void {
    this.#hedges.inc({ result })
  }

  notKept (endpoint: EndpointName, reason: NotKeptReason): void {
    this.#notKept.inc({ endpoint, reason })
  }

  pruned (endpoint: EndpointLabel, answer: 'cache' | 'local' | 'upstream', distanceVersions: bigint | undefined): void {
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

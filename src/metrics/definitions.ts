import { versionWaitResults } from '../chain/version-waits.js'
import { transactionWaitResults } from '../follow/follower.js'
import { leaseResults } from '../cache/coalescer.js'
import { hedgeResults } from '../upstreams/hedger.js'
import { failureReasons } from '../upstreams/upstream-failure.js'
import { tokenSources } from '../upstreams/shared-rate.js'
import { upstreamStates } from '../upstreams/upstream.js'
import { auditResults, observedResults } from '../proxy/audit.js'
import { missCauses } from '../cache/removals.js'
import { countedTierNames, storeNames, type StoreName } from '../cache/tier.js'
import { outcomeNames } from '../proxy/outcomes.js'
import { endpointNames, endpoints, followedEndpointNames } from '../api/endpoints.js'
import { notStoredReasons, possibleReasonsOf } from '../api/store-verdict.js'
import { diskOperations } from '../cache/disk-files.js'
import { redisOperations } from '../redis/operation-names.js'
import { tailResults } from '../follow/tail-reader.js'
import { touchAllReasons } from '../follow/transaction-digest.js'
import { verifyResults } from '../follow/verify-write-sets.js'

/** Values of a label: a closed list, or names from the configuration (law 10: nothing grows without bound). */
export type LabelValues = readonly string[] | 'upstreams' | 'clients' | 'release' | 'chain'

/**
 * Name of the rule that merges a gauge of several workers: `sum` of what each worker owns, else the value that needs
 * attention.
 */
export type Aggregation = 'sum' | 'max' | 'min'

/** Definition of a metric; its label values bound the number of its series. */
export interface MetricDefinition {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: Readonly<Record<string, LabelValues>>
  readonly help: string
  /** Upper bounds of a histogram's buckets, ascending; empty for other types. */
  readonly bounds: readonly number[]
  /** Present on gauges only. */
  readonly aggregation?: Aggregation
  /** True for a metric whose series appear when first counted, since most of them never are. */
  readonly isSparse?: true
  /** Tier without which the metric has no series. */
  readonly tier?: StoreName
  /** False for labels that no event can have together; absent if all can. */
  readonly isPossible?: (labels: Readonly<Record<string, string>>) => boolean
}

type Unnamed = Omit<MetricDefinition, 'name'>
type Labels = MetricDefinition['labels']

function counter (
  help: string,
  labels: Labels = {},
  options: Pick<MetricDefinition, 'isSparse' | 'tier' | 'isPossible'> = {}
): Unnamed {
  return { type: 'counter', labels, help, bounds: [], ...options }
}

function gauge (aggregation: Aggregation, help: string, labels: Labels = {}, tier?: StoreName): Unnamed {
  return { type: 'gauge', labels, help, bounds: [], aggregation, ...(tier !== undefined && { tier }) }
}

function histogram (bounds: readonly number[], help: string, labels: Labels): Unnamed {
  return { type: 'histogram', labels, help, bounds }
}

/** Reasons to close a client connection; labels of `varve_connections_cut_total`. */
export const connectionCutReasons = [
  // Timed out in the TLS handshake, the request head or the request body.
  'handshake',
  'head',
  'body',
  // Client read nothing of its response for 120 s.
  'stalled',
  // Was the slowest reader while responses in flight exceeded `limits.inFlightMb`.
  'memory',
  // Pipelined too many requests.
  'pipelining',
  // Was idle, and replaced by a new connection at the limit.
  'idle',
  // Was new, with the limit reached and no idle connection to replace.
  'connection_limit'
] as const

/** Reason to close a client connection. */
export type ConnectionCutReason = typeof connectionCutReasons[number]

// Statuses that varve, upstreams and their gateways use; each is a label of its own.
const knownStatuses = (
  '200 204 206 301 302 304 307 308 400 401 403 404 405 406 408 409 410 413 414 415 416 417 422 429 431 ' +
  '500 501 502 503 504'
).split(' ')
const statusClasses = ['2xx', '3xx', '4xx', '5xx']

/** Values of the `status` label: known statuses, the class of any other, and `other` outside 200 to 599. */
export const statusLabels: readonly string[] = [...knownStatuses, ...statusClasses, 'other']

// Labels of upstream requests, which may also fail without a status.
const upstreamStatusLabels: readonly string[] = [...statusLabels, ...failureReasons]
const knownLabels = new Set(upstreamStatusLabels)

/**
 * Returns the label of a status or failure reason; statuses that an upstream invents add no series (law 10: nothing
 * grows without bound).
 */
export function statusLabelOf (status: number | string): string {
  const text = String(status)
  if (knownLabels.has(text)) return text
  return /^[2-5][0-9]{2}$/.test(text) ? `${text.slice(0, 1)}xx` : 'other'
}

/** Values of the `endpoint` label: known endpoints, and `other` for the rest. */
export const endpointLabels = [...endpointNames, 'other'] as const

const seconds = [5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const versions = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]

const endpoint = endpointLabels
const reasonsByEndpoint = new Map<string, ReadonlySet<string>>(
  endpoints.map(each => [each.name, new Set<string>(possibleReasonsOf(each))])
)
const movingEndpoints = new Set<string>(endpoints.filter(({ keyedBy }) => keyedBy === 'moving').map(({ name }) => name))
const upstream = 'upstreams'
const outcome = outcomeNames

/** All metrics by subject; dashboards rely on the names, and docs/metrics.md is generated from this list. */
export const metricGroups = {
  Requests: {
    varve_requests_total: counter('Client requests.', {
      endpoint,
      outcome,
      status: statusLabels
    }, { isSparse: true }),
    varve_request_duration_seconds: histogram(seconds, 'Time from a client request to its response.', {
      endpoint,
      outcome
    }),
    varve_response_bytes_total: counter('Bytes of the bodies of responses, as announced where they stream.', {
      endpoint
    }, { isSparse: true }),
    // Only reads with a version in their key can be answered from the cache or by varve itself.
    varve_pruned_requests_total: counter('Requests for pruned history.', {
      endpoint,
      answer: ['cache', 'local', 'upstream']
    }, {
      isPossible: ({ endpoint: of = '', answer }) =>
        answer === 'upstream' || (of !== 'other' && !movingEndpoints.has(of))
    }),
    varve_pruned_distance_versions: histogram(versions, 'Distance of a pruned request below the oldest version.', {
      endpoint
    }),
    varve_not_stored_total: counter('Responses that were not stored.', {
      endpoint: endpointNames,
      reason: notStoredReasons
    }, { isPossible: ({ endpoint: of = '', reason = '' }) => reasonsByEndpoint.get(of)?.has(reason) === true }),
    varve_misses_total: counter(
      'Misses and forwarded reads, by what became of an earlier entry.',
      { endpoint: endpointNames, cause: missCauses },
      { isPossible: ({ endpoint: of = '', cause }) => cause === 'moving' || !movingEndpoints.has(of) }
    ),
    varve_reads_saved_total: counter(
      'Hits and coalesced reads.',
      { endpoint: endpointNames }
    ),
    varve_savings_total: counter(
      'Price of the upstream requests that reads saved, at savings.pricePerMillion, in its currency.',
      { endpoint: endpointNames }
    ),
    varve_stale_latest_total: counter('Moving reads served from behind the served head.'),
    varve_version_waits_total: counter('Reads that waited for an upstream to reach a version.', {
      result: versionWaitResults
    }),
    varve_transaction_waits_total: counter('Requests that varve held for a transaction.', {
      result: transactionWaitResults
    }),
    varve_waiting_for_version: gauge('sum', 'Reads that wait for an upstream to reach a version.'),
    varve_audit_total: counter('Hits that were fetched again from an upstream and compared.', {
      result: auditResults
    }),
    varve_in_flight_rejected_total: counter(
      'Requests rejected with 503 because limits.inFlightMb was used up; hits are still served.'
    ),
    varve_shed_total: counter('Reads rejected with 503 because the event loop was late; hits are still served.')
  },
  Clients: {
    varve_client_requests_total: counter('Requests with a configured client key.', {
      client: 'clients',
      outcome
    }),
    varve_client_response_bytes_total: counter('Bytes of the bodies of responses to a configured client key.', {
      client: 'clients'
    }),
    varve_limited_total: counter('Requests rejected with 429 by a client limit.', {
      by: ['address', 'key']
    }),
    varve_connections: gauge('sum', 'Open client connections.'),
    varve_connections_waiting: gauge('max', 'Client connections that the kernel holds until varve accepts them.'),
    varve_connections_cut_total: counter('Client connections closed by varve.', {
      reason: connectionCutReasons
    }),
    varve_tls_certificate_not_after_seconds: gauge(
      'min',
      'Unix time at which the certificate of the public listener expires; present only with TLS.'
    )
  },
  Chain: {
    varve_chain_info: gauge(
      'max',
      'Chain that varve serves, and the space of its cache keys; always 1.',
      { chain_id: 'chain', space: 'chain' }
    ),
    varve_ledger_version: gauge('max', 'Ledger version of the served head.'),
    varve_ledger_oldest_version: gauge('min', 'Oldest version that any upstream has.'),
    varve_ledger_block_height: gauge('max', 'Block height of the served head.'),
    varve_ledger_oldest_block_height: gauge('min', 'Oldest block that any upstream has.'),
    varve_ledger_position_age_seconds: gauge('max', 'Time since an upstream last confirmed the position.'),
    varve_lowest_requested_version: gauge(
      'min',
      'Lowest version within the window that clients requested in the last minutes; the head if there is none.'
    ),
    varve_chain_resets_total: counter('Chain resets: times that the upstreams turned out to serve another chain.')
  },
  // Metrics that exist from the first configuration that follows.
  Following: {
    varve_follow_head_version: gauge('max', 'Followed head: the last version up to which every transaction was read.'),
    varve_follow_lag_seconds: gauge('max', 'Ledger time from the followed head to the newest known head.'),
    varve_follow_reads_total: counter('Readings of the tail.', { result: tailResults }),
    varve_follow_versions_total: counter('Versions that readings of the tail brought.'),
    varve_follow_bytes_total: counter('Bytes that readings of the tail brought.'),
    varve_follow_touched_all_total: counter(
      'Transactions and events that count as a change of everything.',
      { reason: touchAllReasons }
    ),
    varve_follow_observed_total: counter(
      'Latest responses compared with what following would have served.',
      { endpoint: followedEndpointNames, result: observedResults }
    ),
    varve_follow_verified_total: counter('Pages whose changes were checked in BCS against their hashes.', {
      result: verifyResults
    })
  },
  Upstreams: {
    varve_upstream_requests_total: counter('Requests to an upstream.', {
      upstream,
      endpoint,
      status: upstreamStatusLabels
    }, { isSparse: true }),
    varve_upstream_request_duration_seconds: histogram(seconds, 'Time from a request to an upstream to its response.', {
      upstream
    }),
    varve_upstream_response_bytes_total: counter('Bytes of bodies from the upstream, as announced where they stream.', {
      upstream
    }, { isSparse: true }),
    varve_upstream_up: gauge('min', '1 if the upstream is up, 0 if it is down, quarantined or not polled yet.', {
      upstream
    }),
    varve_upstream_state: gauge(
      'max',
      '1 for the current state of the upstream, as in /status.json, 0 for the others.',
      { upstream, state: upstreamStates }
    ),
    varve_upstream_version: gauge('max', 'Newest ledger version of the upstream.', { upstream }),
    varve_upstream_oldest_version: gauge('max', 'Oldest ledger version of the upstream.', { upstream }),
    varve_upstream_lag_versions: gauge('max', 'Versions by which the upstream lags behind the served head.', {
      upstream
    }),
    varve_upstream_lag_seconds: gauge(
      'max',
      'Ledger time by which the upstream lags behind the served head or the newest upstream.',
      { upstream }
    ),
    varve_upstream_in_flight: gauge('sum', 'Requests in flight to the upstream.', { upstream }),
    varve_upstream_max_concurrent: gauge('sum', 'Limit on requests in flight to the upstream, of this replica.', {
      upstream
    }),
    varve_upstream_tokens_total: counter('Requests allowed by requestsPerSecond.', {
      upstream,
      source: tokenSources
    }),
    varve_upstream_budget_units: gauge(
      'min',
      'Units of the budget of the upstream: left to spend at once, and most that are saved.',
      { upstream, kind: ['left', 'max'] }
    ),
    varve_upstream_waiting: gauge('sum', 'Requests queued for a slot of the upstream.', { upstream }),
    varve_upstream_slots_held_by_streams: gauge('sum', 'Slots held by responses that stream.', { upstream }),
    varve_upstream_streams_broken_off_total: counter(
      'Streams broken off because their client held over half of the slots while others waited.',
      { upstream },
      { isSparse: true }
    ),
    varve_hedges_total: counter('Reads that were hedged with a second upstream.', { result: hedgeResults })
  },
  Cache: {
    varve_leases_total: counter('Leases of work for all hosts.', {
      kind: ['fetch', 'tail'],
      result: leaseResults
    }),
    varve_cache_entries: gauge('sum', 'Cached entries.', { tier: countedTierNames }),
    varve_cache_bytes: gauge('sum', 'Size of cached entries, with all overhead.', { tier: countedTierNames }),
    varve_cache_max_bytes: gauge('sum', 'Limit on the size of cached entries.', { tier: countedTierNames }),
    varve_cache_evictions_total: counter('Entries evicted.', { tier: countedTierNames }),
    varve_cache_writes_total: counter('Entries stored.', { tier: storeNames }),
    varve_corrupt_entries_total: counter('Entries of a lower tier that failed verification, each a miss.'),
    varve_cache_writes_dropped_total: counter('Entries that the disk or the shared memory could not take in time.', {
      tier: ['shared', 'disk']
    }),
    varve_disk_errors_total: counter('Disk operations that failed or timed out.', { operation: diskOperations }, {
      tier: 'disk'
    }),
    varve_redis_up: gauge('min', '1 if Redis is reachable, 0 if not; absent if none is configured.', {}, 'redis'),
    varve_redis_errors_total: counter('Redis operations that failed or timed out.', { operation: redisOperations }, {
      tier: 'redis'
    }),
    varve_redis_duration_seconds: histogram(seconds, 'Duration of Redis operations.', { operation: redisOperations })
  },
  Process: {
    varve_build_info: gauge('max', 'Release of varve as a label; always 1.', { version: 'release' }),
    varve_sandbox: gauge('max', '1 if varve serves the made-up data of its embedded sandbox.'),
    varve_level: gauge('max', 'Severity as /readyz and the status page show it: 0 green, 1 amber, 2 red.'),
    varve_workers: gauge('sum', 'Processes that serve reads.'),
    varve_replicas: gauge('max', 'Live replicas that share the limits of upstreams, as this one last knew.'),
    varve_in_flight_bytes: gauge('sum', 'Bytes outside the cache: responses, request bodies, writes to Redis.'),
    varve_in_flight_max_bytes: gauge('sum', 'Limit on bytes outside the cache: limits.inFlightMb.'),
    varve_workers_lost_total: counter('Workers that crashed or hung and were replaced.'),
    varve_config_reloads_total: counter('Configuration reloads.', { result: ['reloaded', 'rejected'] }),
    varve_config_last_reload_successful: gauge(
      'min',
      '1 if the last reload succeeded or there was none, 0 if it was rejected.'
    ),
    varve_unhandled_total: counter('Unexpected errors.', { kind: ['request', 'rejection', 'exception'] }),
    varve_trace_spans_total: counter('Spans of traced requests.', {
      result: ['sent', 'failed', 'dropped']
    }, { isSparse: true }),
    varve_descriptors_exhausted_total: counter('Times that a process ran out of file descriptors.'),
    varve_log_lines_lost_total: counter('Log lines lost to a full disk or a reader that is gone or stalled.')
  }
}

/** Name of a metric. */
export type MetricName = {
  [Group in keyof typeof metricGroups]: keyof typeof metricGroups[Group]
}[keyof typeof metricGroups]

/** Name of a counter. */
export type CounterName = Extract<MetricName, `${string}_total`>

/** Returns the metrics of a group, each with its name. */
export function namedIn (group: Readonly<Record<string, Unnamed>>): readonly MetricDefinition[] {
  return Object.entries(group).map(([name, definition]) => ({ name, ...definition }))
}

/** All metrics in one list. */
export const metricList: readonly MetricDefinition[] = Object.values(metricGroups).flatMap(namedIn)

const definitions = new Map(metricList.map(definition => [definition.name, definition]))

/** Returns the definition of a metric. */
export function definitionOf (name: MetricName): MetricDefinition {
  return definitions.get(name) as MetricDefinition
}

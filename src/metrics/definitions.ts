import { versionWaitResults } from '../chain/version-waits.js'
import { hedgeResults } from '../upstreams/hedger.js'
import { failureReasons } from '../upstreams/upstream-failure.js'
import { upstreamStates } from '../upstreams/upstream.js'
import { auditResults } from '../proxy/audit-sampler.js'
import { countedTierNames, tierNames, type TierName } from '../cache/tier.js'
import { outcomeNames } from '../proxy/outcomes.js'
import { endpointNames, endpoints, followedEndpointNames } from '../api/endpoints.js'
import { notStoredReasons, possibleReasonsOf } from '../api/store-verdict.js'
import { diskOperations } from '../cache/disk-files.js'
import { redisOperations } from '../redis/operation-names.js'
import { followComparisons } from '../follow/follow-comparer.js'
import { tailResults } from '../follow/tail-reader.js'
import { touchAllReasons } from '../follow/transaction-digest.js'
import { verifyResults } from '../follow/verify-write-sets.js'

/** Values of a label: a closed list, or names from the configuration (law 10: nothing grows without bound). */
export type LabelValues = readonly string[] | 'upstreams' | 'clients' | 'release' | 'chain'

/** Function that merges a gauge of several workers: the sum of what each owns, else the value that needs attention. */
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
  /** Creates series when first counted, since most of them never are. */
  readonly isSparse?: true
  /** Tier without which the metric has no series. */
  readonly tier?: TierName
  /** False for labels that no event can have together; absent if all can. */
  readonly isPossible?: (labels: Readonly<Record<string, string>>) => boolean
}

type Unnamed = Omit<MetricDefinition, 'name'>
type Labels = MetricDefinition['labels']

function counter (
  labels: Labels,
  help: string,
  options: Pick<MetricDefinition, 'isSparse' | 'tier' | 'isPossible'> = {}
): Unnamed {
  return { type: 'counter', labels, help, bounds: [], ...options }
}

function gauge (labels: Labels, help: string, aggregation: Aggregation, tier?: TierName): Unnamed {
  return { type: 'gauge', labels, help, bounds: [], aggregation, ...(tier !== undefined && { tier }) }
}

function histogram (labels: Labels, help: string, bounds: readonly number[]): Unnamed {
  return { type: 'histogram', labels, help, bounds }
}

/** Reasons to close a client connection; labels of `varve_connections_cut_total`. */
export const connectionCutReasons = [
  // Timed out in the TLS handshake, the request head or the request body.
  'handshake',
  'head',
  'body',
  // Read nothing of its response for 120 s.
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

// Upstream requests may fail without a status.
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

/** Metrics of following, which exist from the first configuration that follows. */
const followMetrics = {
  varve_follow_head_version: gauge(
    {},
    'Followed head: the last version up to which every transaction was read.',
    'max'
  ),
  varve_follow_lag_seconds: gauge({}, 'Ledger time from the followed head to the newest known head.', 'max'),
  varve_follow_reads_total: counter({ result: tailResults }, 'Readings of the tail, by result.'),
  varve_follow_versions_total: counter({}, 'Versions that readings of the tail brought.'),
  varve_follow_bytes_total: counter({}, 'Bytes that readings of the tail brought.'),
  varve_follow_touched_all_total: counter(
    { reason: touchAllReasons },
    'Transactions and events that count as a change of everything, by reason.'
  ),
  varve_follow_observed_total: counter(
    { endpoint: followedEndpointNames, result: followComparisons },
    'Latest responses compared with what following would have served, by result.'
  ),
  varve_follow_verified_total: counter(
    { result: verifyResults },
    'Pages whose changes were checked in BCS against their hashes, by result.'
  )
}

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
    varve_requests_total: counter(
      { endpoint, outcome, status: statusLabels },
      'Client requests, by endpoint, outcome and status.',
      { isSparse: true }
    ),
    varve_request_duration_seconds: histogram(
      { endpoint, outcome },
      'Time from a client request to its response.',
      seconds
    ),
    varve_pruned_requests_total: counter(
      { endpoint, answer: ['cache', 'local', 'upstream'] },
      'Requests for pruned history, by the source of the response.',
      // Varve itself knows the version of keyed reads only.
      {
        isPossible: ({ endpoint: of = '', answer }) =>
          answer === 'upstream' || (of !== 'other' && !movingEndpoints.has(of))
      }
    ),
    varve_pruned_distance_versions: histogram(
      { endpoint },
      'Distance of a pruned request below the oldest version.',
      versions
    ),
    varve_not_stored_total: counter(
      { endpoint: endpointNames, reason: notStoredReasons },
      'Responses that were not stored, by reason.',
      { isPossible: ({ endpoint: of = '', reason = '' }) => reasonsByEndpoint.get(of)?.has(reason) === true }
    ),
    varve_reads_saved_total: counter(
      { endpoint: endpointNames },
      'Client requests answered without an upstream request of their own: hits and coalesced reads.'
    ),
    varve_stale_latest_total: counter({}, 'Moving reads served from behind the served head.'),
    varve_version_waits_total: counter(
      { result: versionWaitResults },
      'Reads that waited for an upstream to reach a version, by result.'
    ),
    varve_waiting_for_version: gauge({}, 'Reads that wait for an upstream to reach a version.', 'sum'),
    varve_audit_total: counter(
      { result: auditResults },
      'Hits that were fetched again from an upstream and compared, by result.'
    ),
    varve_in_flight_rejected_total: counter(
      {},
      'Requests rejected with 503 because limits.inFlightMb was used up; hits are still served.'
    ),
    varve_shed_total: counter({}, 'Reads rejected with 503 because the event loop was late; hits are still served.')
  },
  Clients: {
    varve_client_requests_total: counter(
      { client: 'clients', outcome },
      'Requests with a configured client key, by its name and outcome.'
    ),
    varve_limited_total: counter(
      { by: ['address', 'key'] },
      'Requests rejected with 429 by a client limit, by the kind of client.'
    ),
    varve_connections: gauge({}, 'Open client connections.', 'sum'),
    varve_connections_cut_total: counter(
      { reason: connectionCutReasons },
      'Client connections closed by varve, by reason.'
    ),
    varve_tls_certificate_not_after_seconds: gauge(
      {},
      'Unix time at which the certificate of the public listener expires; present only with TLS.',
      'min'
    )
  },
  Chain: {
    varve_chain_info: gauge(
      { chain_id: 'chain', space: 'chain' },
      'Chain that varve serves, and the space that its cache keys name, as labels; always 1.',
      'max'
    ),
    varve_ledger_version: gauge({}, 'Ledger version of the served head.', 'max'),
    varve_ledger_oldest_version: gauge({}, 'Oldest version that any upstream has.', 'min'),
    varve_ledger_block_height: gauge({}, 'Block height of the served head.', 'max'),
    varve_ledger_oldest_block_height: gauge({}, 'Oldest block that any upstream has.', 'min'),
    varve_ledger_position_age_seconds: gauge({}, 'Time since an upstream last confirmed the position.', 'max'),
    varve_lowest_requested_version: gauge(
      {},
      'Lowest version within the window that clients requested in the last five minutes or so; the head if ' +
        'there is none.',
      'min'
    ),
    varve_chain_resets_total: counter({}, 'Chain resets: times that the upstreams turned out to serve another chain.')
  },
  Following: followMetrics,
  Nodes: {
    varve_upstream_requests_total: counter(
      { upstream, endpoint, status: upstreamStatusLabels },
      'Requests to an upstream, by status or failure reason.',
      { isSparse: true }
    ),
    varve_upstream_request_duration_seconds: histogram(
      { upstream },
      'Time from a request to an upstream to its response.',
      seconds
    ),
    varve_upstream_up: gauge(
      { upstream },
      '1 if the upstream is up, 0 if it is down, quarantined or not polled yet.',
      'min'
    ),
    varve_upstream_state: gauge(
      { upstream, state: upstreamStates },
      '1 for the current state of the upstream, as in /status.json, 0 for the others.',
      'max'
    ),
    varve_upstream_version: gauge({ upstream }, 'Newest ledger version of the upstream.', 'max'),
    varve_upstream_oldest_version: gauge({ upstream }, 'Oldest ledger version of the upstream.', 'max'),
    varve_upstream_lag_versions: gauge(
      { upstream },
      'Versions by which the upstream lags behind the served head.',
      'max'
    ),
    varve_upstream_lag_seconds: gauge(
      { upstream },
      'Ledger time by which the upstream lags behind the served head or the newest upstream, whichever is more.',
      'max'
    ),
    varve_upstream_in_flight: gauge({ upstream }, 'Requests in flight to the upstream.', 'sum'),
    varve_upstream_max_concurrent: gauge({ upstream }, 'Limit on requests in flight to the upstream.', 'sum'),
    varve_upstream_waiting: gauge({ upstream }, 'Requests queued for a slot of the upstream.', 'sum'),
    varve_upstream_slots_held_by_streams: gauge({ upstream }, 'Slots held by responses that stream.', 'sum'),
    varve_upstream_streams_broken_off_total: counter(
      { upstream },
      'Streams broken off because their client held over half of the slots while others waited.',
      { isSparse: true }
    ),
    varve_hedges_total: counter({ result: hedgeResults }, 'Reads that were hedged with a second upstream, by result.')
  },
  Cache: {
    varve_cache_entries: gauge({ tier: countedTierNames }, 'Cached entries.', 'sum'),
    varve_cache_bytes: gauge({ tier: countedTierNames }, 'Size of cached entries, with all overhead.', 'sum'),
    varve_cache_max_bytes: gauge({ tier: countedTierNames }, 'Limit on the size of cached entries.', 'sum'),
    varve_cache_evictions_total: counter({ tier: countedTierNames }, 'Entries evicted.'),
    varve_cache_writes_total: counter({ tier: tierNames }, 'Entries stored.'),
    varve_corrupt_entries_total: counter({}, 'Entries of a lower tier that failed verification, each a miss.'),
    varve_cache_writes_dropped_total: counter({ tier: ['disk'] }, 'Entries that the disk could not take in time.', {
      tier: 'disk'
    }),
    varve_disk_errors_total: counter({ operation: diskOperations }, 'Disk operations that failed or timed out.', {
      tier: 'disk'
    }),
    varve_redis_up: gauge({}, '1 if Redis is reachable, 0 if not; absent if none is configured.', 'min', 'redis'),
    varve_redis_errors_total: counter({ operation: redisOperations }, 'Redis operations that failed or timed out.', {
      tier: 'redis'
    }),
    varve_redis_duration_seconds: histogram({ operation: redisOperations }, 'Duration of Redis operations.', seconds)
  },
  Process: {
    varve_build_info: gauge({ version: 'release' }, 'Release of varve as a label; always 1.', 'max'),
    varve_sandbox: gauge({}, '1 if varve serves the made-up data of its embedded sandbox.', 'max'),
    varve_level: gauge({}, 'Severity as /readyz and the status page show it: 0 green, 1 amber, 2 red.', 'max'),
    varve_workers: gauge({}, 'Processes that serve reads.', 'sum'),
    varve_in_flight_bytes: gauge({}, 'Bytes outside the cache: responses, request bodies, writes to Redis.', 'sum'),
    varve_in_flight_max_bytes: gauge({}, 'Limit on bytes outside the cache: limits.inFlightMb.', 'sum'),
    varve_workers_lost_total: counter({}, 'Workers that crashed or hung and were replaced.'),
    varve_config_reloads_total: counter({ result: ['reloaded', 'rejected'] }, 'Configuration reloads, by result.'),
    varve_config_last_reload_successful: gauge(
      {},
      '1 if the last reload succeeded or there was none, 0 if it was rejected.',
      'min'
    ),
    varve_unhandled_total: counter({ kind: ['request', 'rejection', 'exception'] }, 'Unexpected errors, by origin.'),
    varve_trace_spans_total: counter(
      { result: ['sent', 'failed', 'dropped'] },
      'Spans of traced requests, by what became of them.',
      { isSparse: true }
    ),
    varve_descriptors_exhausted_total: counter({}, 'Times that a process ran out of file descriptors.'),
    varve_log_lines_lost_total: counter({}, 'Log lines lost to a full disk or a reader that is gone or stalled.')
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

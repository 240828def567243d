import { versionWaitResults } from '../chain/version-waits.js'
import { hedgeResults } from '../upstreams/hedger.js'
import { upstreamStates } from '../upstreams/upstream.js'
import { auditResults } from '../proxy/audit-sampler.js'
import { countedTierNames, tierNames } from '../cache/tier.js'
import { outcomeNames } from '../proxy/outcomes.js'
import { endpointNames, endpoints, followedEndpointNames } from '../api/endpoints.js'
import { notStoredReasons, possibleReasonsOf } from '../api/store-verdict.js'
import { diskOperations } from '../cache/disk-files.js'
import { redisOperations } from '../redis/operation-names.js'
import { connectionCutReasons } from './connection-cut-reasons.js'
import { counter, gauge, histogram, type MetricDefinition } from './metric-definition.js'
import { statusLabels, upstreamStatusLabels } from './status-labels.js'
import { followComparisons } from '../follow/follow-comparer.js'
import { tailResults } from '../follow/tail-reader.js'
import { touchAllReasons } from '../follow/transaction-digest.js'
import { verifyResults } from '../follow/verify-write-sets.js'

export { type Aggregation, type LabelValues, type MetricDefinition } from './metric-definition.js'

/** Values of the `endpoint` label: known endpoints, and `other` for the rest. */
export const endpointLabels = [...endpointNames, 'other'] as const

/** Metrics of following, which exist from the first configuration that follows. */
const followMetrics = [
  gauge(
    'varve_follow_head_version',
    {},
    'Followed head: the last version up to which every transaction was read.',
    'max'
  ),
  gauge('varve_follow_lag_seconds', {}, 'Ledger time from the followed head to the newest known head.', 'max'),
  counter('varve_follow_reads_total', { result: tailResults }, 'Readings of the tail, by result.'),
  counter('varve_follow_versions_total', {}, 'Versions that readings of the tail brought.'),
  counter('varve_follow_bytes_total', {}, 'Bytes that readings of the tail brought.'),
  counter(
    'varve_follow_touched_all_total',
    { reason: touchAllReasons },
    'Transactions and events that count as a change of everything, by reason.'
  ),
  counter(
    'varve_follow_observed_total',
    { endpoint: followedEndpointNames, result: followComparisons },
    'Latest responses compared with what following would have served, by result.'
  ),
  counter(
    'varve_follow_verified_total',
    { result: verifyResults },
    'Pages whose changes were checked in BCS against their hashes, by result.'
  )
] as const

const seconds = [
  0.00005,
  0.0001,
  0.00025,
  0.0005,
  0.001,
  0.0025,
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10
]
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
  Requests: [
    counter(
      'varve_requests_total',
      { endpoint, outcome, status: statusLabels },
      'Client requests, by endpoint, outcome and status.',
      {
        isSparse: true
      }
    ),
    histogram(
      'varve_request_duration_seconds',
      { endpoint, outcome },
      'Time from a client request to its response.',
      seconds
    ),
    counter(
      'varve_pruned_requests_total',
      { endpoint, answer: ['cache', 'local', 'upstream'] },
      'Requests for pruned history, by the source of the response.',
      // Varve itself knows the version of keyed reads only.
      {
        isPossible: ({ endpoint: of = '', answer }) =>
          answer === 'upstream' || (of !== 'other' && !movingEndpoints.has(of))
      }
    ),
    histogram(
      'varve_pruned_distance_versions',
      { endpoint },
      'Distance of a pruned request below the oldest version.',
      versions
    ),
    counter(
      'varve_not_stored_total',
      { endpoint: endpointNames, reason: notStoredReasons },
      'Responses that were not stored, by reason.',
      { isPossible: ({ endpoint: of = '', reason = '' }) => reasonsByEndpoint.get(of)?.has(reason) === true }
    ),
    counter(
      'varve_reads_saved_total',
      { endpoint: endpointNames },
      'Client requests answered without an upstream request of their own: hits and coalesced reads.'
    ),
    counter('varve_stale_latest_total', {}, 'Moving reads served from behind the served head.'),
    counter(
      'varve_version_waits_total',
      { result: versionWaitResults },
      'Reads that waited for an upstream to reach a version, by result.'
    ),
    gauge('varve_waiting_for_version', {}, 'Reads that wait for an upstream to reach a version.', 'sum'),
    counter(
      'varve_audit_total',
      { result: auditResults },
      'Hits that were fetched again from an upstream and compared, by result.'
    ),
    counter(
      'varve_in_flight_rejected_total',
      {},
      'Requests rejected with 503 because limits.inFlightMb was used up; hits are still served.'
    ),
    counter('varve_shed_total', {}, 'Reads rejected with 503 because the event loop was late; hits are still served.')
  ],
  Clients: [
    counter(
      'varve_client_requests_total',
      { client: 'clients', outcome },
      'Requests with a configured client key, by its name and outcome.'
    ),
    counter(
      'varve_limited_total',
      { by: ['address', 'key'] },
      'Requests rejected with 429 by a client limit, by the kind of client.'
    ),
    gauge('varve_connections', {}, 'Open client connections.', 'sum'),
    counter(
      'varve_connections_cut_total',
      { reason: connectionCutReasons },
      'Client connections closed by varve, by reason.'
    ),
    gauge(
      'varve_tls_certificate_not_after_seconds',
      {},
      'Unix time at which the certificate of the public listener expires; present only with TLS.',
      'min'
    )
  ],
  Chain: [
    gauge(
      'varve_chain_info',
      { chain_id: 'chain', space: 'chain' },
      'Chain that varve serves, and the space that its cache keys name, as labels; always 1.',
      'max'
    ),
    gauge('varve_ledger_version', {}, 'Ledger version of the served head.', 'max'),
    gauge('varve_ledger_oldest_version', {}, 'Oldest version that any upstream has.', 'min'),
    gauge('varve_ledger_block_height', {}, 'Block height of the served head.', 'max'),
    gauge('varve_ledger_oldest_block_height', {}, 'Oldest block that any upstream has.', 'min'),
    gauge('varve_ledger_position_age_seconds', {}, 'Time since an upstream last confirmed the position.', 'max'),
    gauge(
      'varve_lowest_requested_version',
      {},
      'Lowest version within the window that clients requested in the last five minutes or so; the head if ' +
        'there is none.',
      'min'
    ),
    counter('varve_chain_resets_total', {}, 'Chain resets: times that the upstreams turned out to serve another chain.')
  ],
  Following: followMetrics,
  Nodes: [
    counter(
      'varve_upstream_requests_total',
      { upstream, endpoint, status: upstreamStatusLabels },
      'Requests to an upstream, by status or failure reason.',
      { isSparse: true }
    ),
    histogram(
      'varve_upstream_request_duration_seconds',
      { upstream },
      'Time from a request to an upstream to its response.',
      seconds
    ),
    gauge(
      'varve_upstream_up',
      { upstream },
      '1 if the upstream is up, 0 if it is down, quarantined or not polled yet.',
      'min'
    ),
    gauge(
      'varve_upstream_state',
      { upstream, state: upstreamStates },
      '1 for the current state of the upstream, as in /status.json, 0 for the others.',
      'max'
    ),
    gauge('varve_upstream_version', { upstream }, 'Newest ledger version of the upstream.', 'max'),
    gauge('varve_upstream_oldest_version', { upstream }, 'Oldest ledger version of the upstream.', 'max'),
    gauge(
      'varve_upstream_lag_versions',
      { upstream },
      'Versions by which the upstream lags behind the served head.',
      'max'
    ),
    gauge(
      'varve_upstream_lag_seconds',
      { upstream },
      'Ledger time by which the upstream lags behind the served head or the newest upstream, whichever is more.',
      'max'
    ),
    gauge('varve_upstream_in_flight', { upstream }, 'Requests in flight to the upstream.', 'sum'),
    gauge('varve_upstream_max_concurrent', { upstream }, 'Limit on requests in flight to the upstream.', 'sum'),
    gauge('varve_upstream_waiting', { upstream }, 'Requests queued for a slot of the upstream.', 'sum'),
    gauge('varve_upstream_slots_held_by_streams', { upstream }, 'Slots held by responses that stream.', 'sum'),
    counter(
      'varve_upstream_streams_broken_off_total',
      { upstream },
      'Streams broken off because their client held over half of the slots while others waited.',
      { isSparse: true }
    ),
    counter(
      'varve_hedges_total',
      { result: hedgeResults },
      'Reads that were hedged with a second upstream, by result.'
    )
  ],
  Cache: [
    gauge('varve_cache_entries', { tier: countedTierNames }, 'Cached entries.', 'sum'),
    gauge('varve_cache_bytes', { tier: countedTierNames }, 'Size of cached entries, with all overhead.', 'sum'),
    gauge('varve_cache_max_bytes', { tier: countedTierNames }, 'Limit on the size of cached entries.', 'sum'),
    counter('varve_cache_evictions_total', { tier: countedTierNames }, 'Entries evicted.'),
    counter('varve_cache_writes_total', { tier: tierNames }, 'Entries stored.'),
    counter('varve_corrupt_entries_total', {}, 'Entries of a lower tier that failed verification, each a miss.'),
    counter('varve_cache_writes_dropped_total', { tier: ['disk'] }, 'Entries that the disk could not take in time.', {
      tier: 'disk'
    }),
    counter(
      'varve_disk_errors_total',
      { operation: diskOperations },
      'Disk operations that failed or timed out.',
      { tier: 'disk' }
    ),
    gauge('varve_redis_up', {}, '1 if Redis is reachable, 0 if not; absent if none is configured.', 'min', {
      tier: 'redis'
    }),
    counter('varve_redis_errors_total', { operation: redisOperations }, 'Redis operations that failed or timed out.', {
      tier: 'redis'
    }),
    histogram('varve_redis_duration_seconds', { operation: redisOperations }, 'Duration of Redis operations.', seconds)
  ],
  Process: [
    gauge('varve_build_info', { version: 'release' }, 'Release of varve as a label; always 1.', 'max'),
    gauge('varve_sandbox', {}, '1 if varve serves the made-up data of its embedded sandbox.', 'max'),
    gauge('varve_level', {}, 'Severity as /readyz and the status page show it: 0 green, 1 amber, 2 red.', 'max'),
    gauge('varve_workers', {}, 'Processes that serve reads.', 'sum'),
    gauge('varve_in_flight_bytes', {}, 'Bytes outside the cache: responses, request bodies, writes to Redis.', 'sum'),
    gauge('varve_in_flight_max_bytes', {}, 'Limit on bytes outside the cache: limits.inFlightMb.', 'sum'),
    counter('varve_workers_lost_total', {}, 'Workers that crashed or hung and were replaced.'),
    counter(
      'varve_config_reloads_total',
      { result: ['reloaded', 'rejected'] },
      'Configuration reloads, by result.'
    ),
    gauge(
      'varve_config_last_reload_successful',
      {},
      '1 if the last reload succeeded or there was none, 0 if it was rejected.',
      'min'
    ),
    counter(
      'varve_unhandled_total',
      { kind: ['request', 'rejection', 'exception'] },
      'Unexpected errors, by origin.'
    ),
    counter(
      'varve_trace_spans_total',
      { result: ['sent', 'failed', 'dropped'] },
      'Spans of traced requests, by what became of them.',
      { isSparse: true }
    ),
    counter('varve_descriptors_exhausted_total', {}, 'Times that a process ran out of file descriptors.'),
    counter(
      'varve_log_lines_lost_total',
      {},
      'Log lines lost to a full disk or a reader that is gone or stalled.'
    )
  ]
} as const

/** All metrics in one list. */
export const metricList: readonly MetricDefinition[] = Object.values(metricGroups).flat()

/** Name of a metric. */
export type MetricName = typeof metricGroups[keyof typeof metricGroups][number]['name']

const definitions = Object.fromEntries(
  metricList.map(definition => [definition.name, definition])
) as unknown as Readonly<
  Record<MetricName, MetricDefinition>
>

/** Returns the definition of a metric. */
export function definitionOf (name: MetricName): MetricDefinition {
  return definitions[name]
}

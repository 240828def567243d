import { arrivalResults } from '../chain/arrivals.js'
import { hedgeResults } from '../upstreams/hedges.js'
import { nodeStates } from '../upstreams/node-state.js'
import { auditResults } from '../proxy/auditor.js'
import { outcomeNames } from '../proxy/outcomes.js'
import { endpointNames } from '../api/endpoints.js'
import { notKeptReasons } from '../api/lifetime.js'
import { redisOperations } from '../redis/operations.js'
import { cutReasons } from './cut-reasons.js'
import { statusLabels, upstreamStatusLabels } from './statuses.js'

/** What a label can be: one of a closed list, or a name that an operator has given in the configuration. */
export type LabelValues = readonly string[] | 'upstreams' | 'clients' | 'release'

/**
 * What one number is made of those of several processes: of what each has for itself the sum, else what an operator
 * should know of.
 */
export type Across = 'sum' | 'max' | 'min'

/**
 * One metric: what it is called, what it means and what its labels can be, from which follows how many series it can
 * have.
 */
export interface MetricRow {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: Readonly<Record<string, LabelValues>>
  readonly help: string
  /** Of a histogram: upper bounds, rising; none of any other. */
  readonly bounds: readonly number[]
  /** Of a gauge. */
  readonly across?: Across
  /** Series that come into being when they are first counted, since most of them never do. */
  readonly isSparse?: true
}

/** The endpoint label: a known read, or everything else. */
export const endpointLabels = [...endpointNames, 'other'] as const

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
const upstream = 'upstreams'
const outcome = outcomeNames

/**
 * Every metric of varve, by subject. Dashboards rely on the names; docs/metrics.md is printed from this list.
 */
export const metricGroups = {
  Requests: [
    counter('varve_requests_total', { endpoint, outcome, status: statusLabels }, 'Requests answered, by how.', {
      isSparse: true
    }),
    histogram('varve_request_duration_seconds', { endpoint, outcome }, 'Time from a request to its answer.', seconds),
    counter(
      'varve_pruned_requests_total',
      { endpoint, answer: ['cache', 'local', 'upstream'] },
      'Requests for history that the nodes have pruned, by who answered.'
    ),
    histogram(
      'varve_pruned_distance_versions',
      { endpoint },
      'How far below the oldest version a request was.',
      versions
    ),
    counter(
      'varve_not_stored_total',
      { endpoint, reason: notKeptReasons },
      'Responses that were not stored, by the reason.'
    ),
    counter(
      'varve_stale_latest_total',
      {},
      'Fetches of what moves that brought an answer from behind a position already shown.'
    ),
    counter(
      'varve_version_waits_total',
      { result: arrivalResults },
      'Reads that waited for the fleet to reach a version, by whether it did in time.'
    ),
    gauge('varve_waiting_for_version', {}, 'Reads that wait for the fleet to reach a version.', 'sum'),
    counter(
      'varve_audit_total',
      { result: auditResults },
      'Answers from the cache that were read again from a node, by what came of comparing them.'
    ),
    counter('varve_shed_total', {}, 'Reads that were refused since no hit, while the event loop was late.')
  ],
  Clients: [
    counter(
      'varve_client_requests_total',
      { client: 'clients', outcome },
      'Requests of clients that sent a key of the configuration, by its name and by how they were answered.'
    ),
    counter(
      'varve_limited_total',
      { by: ['address', 'key'] },
      'Requests refused since their client has asked for too much, by what it is known.'
    ),
    gauge('varve_connections', {}, 'Connections of clients that are open.', 'sum'),
    counter(
      'varve_connections_cut_total',
      { reason: cutReasons },
      'Connections of clients that were ended before the client would have, by why.'
    ),
    gauge(
      'varve_tls_certificate_not_after_seconds',
      {},
      'When the certificate of the public listener ends, in Unix time; there only with TLS.',
      'min'
    )
  ],
  Chain: [
    gauge('varve_ledger_version', {}, 'The ledger version shown to clients.', 'max'),
    gauge('varve_ledger_oldest_version', {}, 'The oldest version that a node still has.', 'min'),
    gauge('varve_ledger_block_height', {}, 'The block height shown to clients.', 'max'),
    gauge('varve_ledger_oldest_block_height', {}, 'The oldest block that a node still has.', 'min'),
    gauge('varve_ledger_position_age_seconds', {}, 'Time since an answer last confirmed the position.', 'max'),
    gauge(
      'varve_oldest_asked_version',
      {},
      'The lowest version within the window that clients asked for in about the last five minutes; the head ' +
        'where that is none.',
      'min'
    ),
    counter('varve_chain_resets_total', {}, 'Times that the chain turned out to be another one.')
  ],
  Nodes: [
    counter(
      'varve_upstream_requests_total',
      { upstream, endpoint, status: upstreamStatusLabels },
      'Requests sent to a node, by its status or by how it failed.',
      { isSparse: true }
    ),
    histogram('varve_upstream_request_duration_seconds', { upstream }, 'Time a node took to answer.', seconds),
    gauge('varve_upstream_up', { upstream }, 'Whether the node answers and is asked.', 'min'),
    gauge(
      'varve_upstream_state',
      { upstream, state: nodeStates },
      'How the node is: 1 for the state that it is in, as /status.json names it.',
      'max'
    ),
    gauge('varve_upstream_version', { upstream }, 'The ledger version that the node has got to.', 'max'),
    gauge('varve_upstream_oldest_version', { upstream }, 'The oldest version that the node has.', 'max'),
    gauge('varve_upstream_lag_versions', { upstream }, 'How far the node is behind the position shown.', 'max'),
    gauge('varve_upstream_under_way', { upstream }, 'Requests that are under way to the node.', 'sum'),
    gauge('varve_upstream_max_concurrent', { upstream }, 'Requests that may be under way to the node.', 'sum'),
    gauge('varve_upstream_waiting', { upstream }, 'Requests that wait for their turn at the node.', 'sum'),
    counter(
      'varve_hedges_total',
      { result: hedgeResults },
      'Reads that were asked of a second node since the first took long, by what came of it.'
    )
  ],
  Cache: [
    gauge('varve_cache_entries', { tier: ['memory'] }, 'Entries kept.', 'sum'),
    gauge('varve_cache_bytes', { tier: ['memory'] }, 'What the entries cost, keys and overhead included.', 'sum'),
    gauge('varve_cache_max_bytes', { tier: ['memory'] }, 'What the entries may cost.', 'sum'),
    counter('varve_cache_evictions_total', { tier: ['memory'] }, 'Entries that made room for others.'),
    counter('varve_cache_writes_total', { tier: ['memory', 'redis'] }, 'Entries kept.'),
    counter('varve_corrupt_entries_total', {}, 'Shared entries that were not what was written under their key.'),
    gauge('varve_redis_configured', {}, 'Whether a Redis is configured, which is to answer then.', 'min'),
    gauge('varve_redis_up', {}, 'Whether Redis answers; 0 where none is configured.', 'min'),
    counter('varve_redis_errors_total', { operation: redisOperations }, 'What Redis did not do, or not in time.'),
    histogram('varve_redis_duration_seconds', { operation: redisOperations }, 'Time Redis took.', seconds)
  ],
  Process: [
    gauge('varve_build_info', { version: 'release' }, 'The release of this varve, as a label; always 1.', 'max'),
    gauge('varve_sandbox', {}, 'Whether varve serves the made-up data of its embedded sandbox node.', 'max'),
    gauge('varve_workers', {}, 'Processes that answer reads.', 'sum'),
    counter('varve_workers_lost_total', {}, 'Workers that have ended by themselves, or hung, and were replaced.'),
    counter(
      'varve_config_reloads_total',
      { result: ['exchanged', 'refused'] },
      'Times that the configuration was read anew, by what came of it.'
    ),
    gauge(
      'varve_config_last_reload_successful',
      {},
      'Whether the configuration was understood when it was last read.',
      'min'
    ),
    counter(
      'varve_unhandled_total',
      { kind: ['request', 'rejection', 'exception'] },
      'Failures that nobody foresaw, by what failed.'
    ),
    counter('varve_descriptors_exhausted_total', {}, 'Times that a process had no file descriptor left.'),
    counter(
      'varve_log_lines_lost_total',
      {},
      'Log lines that found no room: a full disk, a reader that is gone or does not read.'
    )
  ]
} as const

/** Every one of them. */
export const metricList: readonly MetricRow[] = Object.values(metricGroups).flat()

/** A name in the list. */
export type MetricName = typeof metricGroups[keyof typeof metricGroups][number]['name']

const rows = Object.fromEntries(metricList.map(row => [row.name, row])) as unknown as Readonly<
  Record<MetricName, MetricRow>
>

/** The row of a metric. */
export function rowOf (name: MetricName): MetricRow {
  return rows[name]
}

type Named<N extends string> = MetricRow & { readonly name: N }

function counter<N extends string> (
  name: N,
  labels: MetricRow['labels'],
  help: string,
  more: { isSparse?: true } = {}
): Named<N> {
  return { name, type: 'counter', labels, help, bounds: [], ...more }
}

function gauge<N extends string> (name: N, labels: MetricRow['labels'], help: string, across: Across): Named<N> {
  return { name, type: 'gauge', labels, help, bounds: [], across }
}

function histogram<N extends string> (
  name: N,
  labels: MetricRow['labels'],
  help: string,
  bounds: readonly number[]
): Named<N> {
  return { name, type: 'histogram', labels, help, bounds }
}

import { followedEndpointNames } from '../api/endpoints.js'
import { followComparisons } from '../follow/follow-comparer.js'
import { tailResults } from '../follow/tail-reader.js'
import { touchAllReasons } from '../follow/transaction-digest.js'
import { verifyResults } from '../follow/verify-write-sets.js'
import { counter, gauge } from './metric-definition.js'

/** Metrics of following, which exist from the first configuration that follows. */
export const followMetrics = [
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

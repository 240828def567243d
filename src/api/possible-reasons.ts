import { type Endpoint, type Keying } from './endpoints.js'
import { type NotStoredReason } from './store-verdict.js'

// Reasons that a response of any endpoint can give.
const general = [
  'status',
  'no_position',
  'wrong_chain',
  'wrong_type',
  'wrong_coding',
  'vetoed',
  'too_large',
  'over_budget',
  'purged',
  'incomplete'
] as const
const ofBlocks = ['outside_window', 'unreadable', 'wrong_block', 'newest_block', 'truncated_block'] as const
const ofPages = ['outside_window', 'unreadable', 'empty_page', 'short_page', 'gapped_page', 'pruned_page'] as const
const ofTransactions = ['outside_window', 'unreadable', 'wrong_transaction', 'pending_transaction'] as const

const special: Readonly<Record<Keying, readonly NotStoredReason[]>> = {
  moving: [],
  version: ['outside_window'],
  block: ofBlocks,
  height: ofBlocks,
  transaction: ofTransactions,
  hash: ofTransactions,
  list: ofPages,
  page: ofPages
}

/** Returns every reason for which a response of an endpoint may not be stored. */
export function possibleReasonsOf ({ keyedBy }: Pick<Endpoint, 'keyedBy'>): readonly NotStoredReason[] {
  return [...general, ...special[keyedBy]]
}

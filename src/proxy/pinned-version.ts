import { type Read } from '../api/read.js'
import { isHit, type Outcome } from './outcomes.js'
import { type ProxySettings } from './proxy-context.js'

/**
 * The version that the cursor of an answer is to carry, so that the listing goes on at it; undefined where the client
 * is to have the node's own.
 */
export function cursorVersionOf (
  { pinsPages }: Pick<ProxySettings, 'pinsPages'>,
  read: Read,
  outcome: Outcome
): bigint | undefined {
  if (read.isPinned) return read.ledgerVersion
  if (!pinsPages || !read.endpoint.takesCursor || read.ledgerVersion !== undefined) return undefined
  // A latest answer: what no position tells the age of is no version's.
  const readAt = isHit(outcome) ? outcome.entry.readAt : outcome.fetched.response.stamped?.position
  return readAt?.head.version
}

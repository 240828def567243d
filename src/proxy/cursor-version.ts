import { type Read } from '../api/read.js'
import { isHit, type Outcome } from './outcomes.js'
import { type ProxySettings } from './proxy-context.js'

/**
 * Returns the version to pin in the cursor of a response, so that all pages of a listing share it; undefined if the
 * upstream's cursor is sent.
 */
export function cursorVersionOf (
  { pinsPages }: Pick<ProxySettings, 'pinsPages'>,
  read: Read,
  outcome: Outcome
): bigint | undefined {
  if (read.isPinned) return read.ledgerVersion
  if (!pinsPages || !read.endpoint.takesCursor || read.ledgerVersion !== undefined) return undefined
  // A latest response without a position has no known version to pin.
  const readAt = isHit(outcome) ? outcome.entry.readAt : outcome.fetched.response.stamped?.position
  return readAt?.head.version
}

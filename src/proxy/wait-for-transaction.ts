import { digestOfHash } from '../api/state-key.js'
import { type Read } from '../api/read.js'
import { type Follower } from '../follow/follower.js'
import { discardBody } from './fetch.js'
import { type Outcome } from './outcomes.js'
import { type ReadClient } from './pinned-read.js'
import { type ProxyContext } from './proxy-context.js'
import { serveRead } from './serve-read.js'

// As long as a node holds such a read.
const holdMs = 1000

/**
 * Serves a read of a transaction by its hash, and holds it until the transaction is committed. A node answers first,
 * because the transaction may be older than what the tail knows.
 */
export async function serveAwaited (
  context: ProxyContext,
  follower: Follower,
  read: Read,
  client: ReadClient
): Promise<Outcome> {
  const { now } = context
  const endsAtMs = now() + holdMs
  const outcome = await serveRead(context, read, client)
  if (!isUncommitted(outcome)) return outcome
  client.bytes?.holdWaiting(outcome.fetched.response.body)
  const version = await follower.waitForTransaction(digestOfHash(read.path.slice(-64)), endsAtMs - now())
  context.metrics.waited(version === undefined ? 'timeout' : 'reached')
  if (version === undefined) return outcome
  discardBody(outcome.fetched)
  return await serveRead(context, { ...read, minVersion: version }, client)
}

function isUncommitted (outcome: Outcome): outcome is Exclude<Outcome, { readonly name: 'hit' }> {
  return outcome.name !== 'hit' &&
    (outcome.fetched.response.status === 404 || outcome.fetched.notStored === 'pending_transaction')
}

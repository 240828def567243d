import { digestOfHash } from '../api/state-key.js'
import { type Read } from '../api/read.js'
import { reportsUpstreamFault } from '../api/upstream-response.js'
import { type Follower, type TransactionWaitResult } from '../follow/follower.js'
import { withTimeout } from '../with-timeout.js'
import { discardBody } from './fetch.js'
import { type FetchOutcome, type Outcome } from './outcomes.js'
import { type ReadClient } from './pinned-read.js'
import { type ReadParts, serveRead } from './serve-read.js'

/** Parts that serve a read of a transaction that is awaited. */
export type AwaitParts = ReadParts & { readonly metrics: { awaitedTransaction(result: TransactionWaitResult): void } }

// Holds a read as long as a node would.
const holdMs = 1000
// Limits the fetch of a transaction that comes late in the wait.
const fetchMs = 500

/**
 * Serves a read of a transaction by its hash, and holds it until the transaction is committed. A node answers first,
 * because the tail may not reach back to the transaction; that answer is sent if nothing better comes. Once the client
 * has left, nothing more is fetched for it.
 */
export async function serveAwaited (
  context: AwaitParts,
  follower: Follower,
  read: Read,
  client: ReadClient,
  clientGone: AbortSignal
): Promise<Outcome> {
  const { now, tracker } = context
  const endsAtMs = now() + holdMs
  const outcome = await serveRead(context, read, client)
  const { space } = tracker
  if (!isUncommitted(outcome)) return outcome
  client.bytes?.holdWaiting(outcome.fetched.response.body)
  const hash = digestOfHash(read.path.slice(-64))
  const version = await follower.waitForTransaction(hash, endsAtMs - now(), clientGone)
  const result = version === undefined ? 'timeout' : 'committed'
  context.metrics.awaitedTransaction(clientGone.aborted ? 'left' : result)
  if (clientGone.aborted) return outcome
  if (space !== tracker.space) {
    // Discards the node's answer, which is of another chain (law 7: chains never mix).
    discardBody(outcome.fetched)
    return await serveRead(context, read, client)
  }
  if (version === undefined) return outcome
  const fetching = serveRead(context, { ...read, minVersion: version }, client)
  const found = await withTimeout(Math.max(fetchMs, endsAtMs - now()), fetching).catch(() => undefined)
  if (found !== undefined && !isFault(found)) {
    discardBody(outcome.fetched)
    return found
  }
  // Destroys a late body, which no client reads.
  fetching.then(late => {
    if (late.name !== 'hit') discardBody(late.fetched)
  }, () => {})
  return outcome
}

function isUncommitted (outcome: Outcome): outcome is FetchOutcome {
  return outcome.name !== 'hit' &&
    (outcome.fetched.response.status === 404 || outcome.fetched.notStored === 'pending_transaction')
}

function isFault (outcome: Outcome): boolean {
  return outcome.name !== 'hit' && reportsUpstreamFault(outcome.fetched.response)
}

import { type Read } from '../api/read.js'
import { type Outcome } from './outcomes.js'
import { type SharedHeads, type Tracker } from '../chain/tracker.js'
import { highestVersionOf } from './pruned-reads.js'
import { type PinParts } from './pinned-read.js'

/** Waits until every live process serves the position of a response, and the version that the response is about. */
export async function reachInAll (
  { tracker }: Pick<PinParts, 'tracker'>,
  sharedHeads: SharedHeads,
  read: Read,
  outcome: Outcome
): Promise<Outcome> {
  const version = shownVersion(tracker, read, outcome)
  try {
    await sharedHeads.reach(version)
  } catch (error) {
    if (outcome.name !== 'hit') outcome.fetched.response.rest?.destroy()
    throw error
  }
  // Takes the position again, because the one from before the wait may be below the entry.
  const { position } = outcome
  if (position === undefined || version === undefined || position.head.version >= version) return outcome
  return { ...outcome, position: tracker.position }
}

/** Returns the highest version that a response shows, by its position or its body. */
function shownVersion (tracker: Tracker, read: Read, outcome: Outcome): bigint | undefined {
  const { position } = outcome
  // Ignores the body of a latest response, whose own position says all.
  const isLatest = outcome.followedAt !== undefined || outcome.name === 'forwarded' ||
    (outcome.name === 'hit' && outcome.kind === 'moving')
  const entry = outcome.name === 'hit' ? outcome.entry : outcome.fetched.entry
  const known = outcome.name === 'hit' ? tracker.known : outcome.fetched.response.stamped
  const about = isLatest ? undefined : highestVersionOf(read, entry) ?? known?.position.head.version
  const shown = position?.head.version
  return about === undefined || (shown !== undefined && about < shown) ? shown : about
}

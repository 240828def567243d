import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { isRendered, type Read, type ReadKeys } from '../api/read.js'
import { type Refusal } from '../api/refusal.js'
import { isHit, type Outcome } from './outcomes.js'
import { lookUpPage } from './events/pages.js'
import { type Parts } from './parts.js'
import { saysPruned } from './events/streams.js'

/**
 * What is kept for a read. A value is shared by all spellings of it, a not-found, which echoes the client's text, by
 * equal texts alone.
 */
export function lookUp (parts: Parts, read: Read, keys: ReadKeys): Entry | undefined {
  const kept = keys.blocks !== undefined && read.speaksOf !== undefined
    ? parts.memory.getBlock(keys.blocks, read.speaksOf)
    : read.page !== undefined
    ? lookUpPage(parts, read, read.page, keys)
    : parts.memory.get(keys.value) ?? (keys.text === keys.value ? undefined : parts.memory.get(keys.text))
  return kept !== undefined && isServed(parts, read, kept) ? kept : undefined
}

/** What an entry tells of versions, where the read itself names none. */
type Told = Pick<Entry, 'lowestVersion'> & { readonly block?: { readonly first: bigint } | undefined }

/** The version that a read speaks of, or the lowest that what is kept for it tells of. */
export function versionOf ({ speaksOf }: Read, kept?: Told): bigint | undefined {
  return speaksOf ?? kept?.lowestVersion ?? kept?.block?.first
}

/**
 * Whether what is kept may be given: beyond every node's window, be it down or not, only where an operator wants that.
 */
export function isServed (parts: Parts, read: Read, kept: Told): boolean {
  if (parts.settings.servePruned || distanceBelow(parts.tracker.position, read, kept) === undefined) return true
  const version = versionOf(read, kept)
  return version !== undefined && !parts.nodes.lacks(version)
}

/**
 * How far a read, or the kept page that answers it, is below the oldest version that a node still has; undefined for
 * what is not below it.
 */
export function distanceBelow (position: Position | undefined, read: Read, kept?: Told): bigint | undefined {
  const version = versionOf(read, kept)
  return version !== undefined && position !== undefined && version < position.oldest.version
    ? position.oldest.version - version
    : undefined
}

/** How far a read is below every node's window; undefined for one that a node is to be asked. */
export function distanceGone (parts: Parts, read: Read): bigint | undefined {
  const distance = distanceBelow(parts.tracker.position, read)
  // Both must say so: the position shown, which is of the right chain, and the nodes as they last were.
  return parts.settings.answerLocally && read.speaksOf !== undefined && parts.nodes.lacks(read.speaksOf)
    ? distance
    : undefined
}

/** Law 11: what every node has pruned is gone, and asking them would only tell so again. */
export function goneRefusal (parts: Parts, read: Read, version: bigint, distance: bigint): Refusal {
  parts.tally.pruned(read.endpoint.name, 'local', distance)
  return parts.pruning.refusal(version, version + distance)
}

/** Law 8: JSON that a release rendered which no live node runs any more, and that a node can still render. */
export function isOldRendering (parts: Parts, read: Read, kept: Entry): boolean {
  return isRendered(read, kept.status) && kept.release !== undefined && parts.nodes.isGone(kept.release) &&
    distanceBelow(parts.tracker.position, read, kept) === undefined && !parts.renewals.isResting(kept)
}

/** Counts a read of what the nodes have pruned, by who answered it. */
export function tellPruned (parts: Parts, read: Read, outcome: Outcome): void {
  const { position } = parts.tracker
  if (isHit(outcome)) {
    if (outcome.kind === 'pruned') {
      parts.tally.pruned(read.endpoint.name, 'cache', distanceBelow(position, read, outcome.entry))
    }
  } else if (outcome.fetched.notKept === 'pruned_page' || saysPruned(outcome.fetched.answer)) {
    parts.tally.pruned(read.endpoint.name, 'upstream', distanceBelow(position, read))
  }
}

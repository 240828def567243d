import { compare } from '../api/position.js'
import { type Health } from './health.js'

/** What a question needs of the node that it is put to. */
export interface Route {
  /** The version that the answer speaks of; undefined where it is of the head, or names none. */
  readonly version: bigint | undefined
  /** The version that the answer must have been read at, or after (law 5). */
  readonly atLeast: bigint | undefined
  /**
   * Events name no version: whose history is the longest is asked first (law 11), be it for those from a number on or
   * for the last ones.
   */
  readonly events: 'from' | 'last' | undefined
}

/** What is known of a node when one is chosen. */
export interface Choice {
  readonly health: Pick<Health, 'isWell' | 'load'>
  /** Whether it was compared since it was last away: before that it may be of another chain. */
  readonly isBelieved: boolean
  /** Whether another question would have to wait before it is sent. */
  readonly isFull?: boolean
  /** From where to where its history goes, by its last word; undefined where it has said nothing yet. */
  readonly window: { readonly oldest: bigint, readonly head: bigint } | undefined
}

/**
 * The nodes that a question can be put to, the best first: those whose window holds the version; of them the well
 * before the sick and those that are still to be compared, and of equals those that may be asked at once, then the
 * least loaded. Where no window holds it, the one that comes nearest; the others are for where that one fails. Those
 * that nothing is known of may have it, and those that are behind one that has it may have it by now.
 */
export function inOrder<T extends Choice> (nodes: readonly T[], route: Route): T[] {
  const { version } = route
  // Who is alone is asked, whatever is known of it.
  if (nodes.length === 1) return [...nodes]
  const best = (a: T, b: T): number =>
    byFitness(a, b) || byHistory(a, b, route) || byHead(a, b, route) || byTurn(a, b) || a.health.load - b.health.load
  if (version === undefined) return nodes.toSorted(best)
  const unknown = nodes.filter(({ window }) => window === undefined).sort(best)
  const able = nodes.filter(({ window }) => window !== undefined && holds(window, version)).sort(best)
  const others = nodes.filter(({ window }) => window !== undefined && !holds(window, version)).sort((a, b) =>
    byFitness(a, b) || compare(distanceTo(a, version), distanceTo(b, version))
  )
  const behind = others.filter(({ window }) => window !== undefined && window.head < version)
  if (able.length > 0) return [...able, ...unknown, ...behind]
  // Who is ahead of all is surely asked of what is ahead of that one; what nobody has any more may be where nobody was
  // heard.
  return behind.length > 0
    ? [...behind.filter(isFit), ...unknown, ...others.filter(node => !isFit(node) || !behind.includes(node))]
    : [...unknown, ...others]
}

/** Whether a node has a version by its last word, or may have it, having said none. */
export function mayHold ({ window }: Choice, { version }: Route): boolean {
  return version === undefined || window === undefined || holds(window, version)
}

/** Whether a node's history may hold what another has forgotten, by its last known window. */
export function remembersMore ({ window }: Choice, { version }: Route, forgetful: Choice): boolean {
  if (window === undefined) return true
  if (version !== undefined) return version >= window.oldest
  return forgetful.window === undefined || window.oldest < forgetful.window.oldest
}

/** Whether another node is to be asked for what one has forgotten; further ahead the last events are others. */
export function mayStillHave (node: Choice, route: Route, forgetful: Choice): boolean {
  if (remembersMore(node, route, forgetful)) return true
  return route.events === 'last' && node.window !== undefined && forgetful.window !== undefined &&
    node.window.head > forgetful.window.head
}

/** Whether a node's answer is surely as good as that of another. */
export function isAsGood (node: Choice, other: Choice, route: Route): boolean {
  const { window } = node
  if (window === undefined || !isFit(node) || !mayHold(node, route)) return false
  const { atLeast } = route
  return (atLeast === undefined || window.head >= atLeast) && byHistory(node, other, route) <= 0
}

function holds (window: NonNullable<Choice['window']>, version: bigint): boolean {
  return version >= window.oldest && version <= window.head
}

function byFitness (a: Choice, b: Choice): number {
  return Number(isFit(b)) - Number(isFit(a))
}

function isFit ({ health, isBelieved }: Choice): boolean {
  return health.isWell && isBelieved
}

function byTurn (a: Choice, b: Choice): number {
  return Number(a.isFull ?? false) - Number(b.isFull ?? false)
}

function byHistory (a: Choice, b: Choice, { events }: Route): number {
  return events !== undefined ? compare(a.window?.oldest ?? 0n, b.window?.oldest ?? 0n) : 0
}

// One that is known to have got there before one that may have by now, and that before one that nothing is known of.
function byHead (a: Choice, b: Choice, { atLeast }: Route): number {
  if (atLeast === undefined) return 0
  const [headA, headB] = [a.window?.head ?? -1n, b.window?.head ?? -1n]
  return headA >= atLeast && headB >= atLeast ? 0 : compare(headB, headA)
}

function distanceTo ({ window }: Choice, version: bigint): bigint {
  if (window === undefined) return 0n
  return version > window.head ? version - window.head : window.oldest - version
}

import { compareBigInts } from '../api/position.js'
import { type Health } from './health.js'

/** Requirements that a request puts on the upstream that serves it. */
export interface UpstreamRequirements {
  /** Version that the response describes; undefined for reads of the head or without a version. */
  readonly version: bigint | undefined
  /** Lowest version at which the response may have been read (law 5: a latest read is never older than its request). */
  readonly minVersion: bigint | undefined
  /**
   * Event reads name no version, so the longest history ranks first (law 11: "gone" is a fact, not a guess). `last`
   * reads the tail of a stream.
   */
  readonly events: 'from' | 'last' | undefined
}

/** Facts about an upstream that ranking uses. */
export interface Candidate {
  readonly health: Pick<Health, 'isHealthy' | 'load'>
  /** False after an outage until its chain is verified: it may be of another chain. */
  readonly isVerified: boolean
  /** True when another request would queue. */
  readonly isFull?: boolean
  /** True while an operator keeps it out of service. */
  readonly isCordoned?: boolean
  /** 0 if absent; a higher number is a backup. */
  readonly priority?: number
  /** 1 if absent. */
  readonly weight?: number
  /** Versions that its last stamped response covers; undefined before the first. */
  readonly window: { readonly oldest: bigint, readonly head: bigint } | undefined
}

/**
 * Ranks upstreams, except cordoned ones: 1. window covers the version (unknown next), 2. healthy and verified, 3.
 * longest history, 4. head, 5. priority, 6. free slot, 7. lowest load by weight.
 */
export function rankUpstreams<T extends Candidate> (all: readonly T[], requirements: UpstreamRequirements): T[] {
  const { version } = requirements
  const candidates = all.filter(({ isCordoned = false }) => !isCordoned)
  // Uses the only upstream whatever its state.
  if (candidates.length === 1) return [...candidates]
  const byRank = (a: T, b: T): number =>
    byHealth(a, b) || byHistory(a, b, requirements) || byHead(a, b, requirements) || byPriority(a, b) ||
    byFreeSlot(a, b) || loadByWeight(a) - loadByWeight(b)
  if (version === undefined) return candidates.toSorted(byRank)
  const unknown = candidates.filter(({ window }) => window === undefined).sort(byRank)
  const covering = candidates.filter(({ window }) => window !== undefined && covers(window, version)).sort(byRank)
  const others = candidates.filter(({ window }) => window !== undefined && !covers(window, version)).sort((a, b) =>
    byHealth(a, b) || compareBigInts(distanceTo(a, version), distanceTo(b, version))
  )
  const behind = others.filter(({ window }) => window !== undefined && window.head < version)
  if (covering.length > 0) return [...covering, ...unknown, ...behind]
  // Asks the furthest upstream first for versions ahead of all; asks upstreams with unknown windows first for versions
  // pruned elsewhere.
  return behind.length > 0
    ? [
      ...behind.filter(isHealthyAndVerified),
      ...unknown,
      ...others.filter(candidate => !isHealthyAndVerified(candidate) || !behind.includes(candidate))
    ]
    : [...unknown, ...others]
}

/** True when the window covers the version, or one of them is unknown. */
export function mayHaveVersion ({ window }: Candidate, { version }: UpstreamRequirements): boolean {
  return version === undefined || window === undefined || covers(window, version)
}

/** True when its last known window may hold history that the other upstream lacks. */
export function mayHaveLongerHistory (
  { window }: Candidate,
  { version }: UpstreamRequirements,
  other: Candidate
): boolean {
  if (window === undefined) return true
  if (version !== undefined) return version >= window.oldest
  return other.window === undefined || window.oldest < other.window.oldest
}

/** For the last events, an upstream further ahead may also respond better than one that lacks history. */
export function mayStillHave (candidate: Candidate, requirements: UpstreamRequirements, other: Candidate): boolean {
  if (mayHaveLongerHistory(candidate, requirements, other)) return true
  return requirements.events === 'last' && candidate.window !== undefined && other.window !== undefined &&
    candidate.window.head > other.window.head
}

/** Allows a hedge only to an upstream whose response cannot be worse. */
export function mayHedge (candidate: Candidate, other: Candidate, requirements: UpstreamRequirements): boolean {
  const { window } = candidate
  if (window === undefined || !isHealthyAndVerified(candidate) || !mayHaveVersion(candidate, requirements)) return false
  // A slow upstream can answer, so a backup gets no hedge.
  if (byPriority(candidate, other) > 0) return false
  const { minVersion } = requirements
  return (minVersion === undefined || window.head >= minVersion) && byHistory(candidate, other, requirements) <= 0
}

function covers (window: NonNullable<Candidate['window']>, version: bigint): boolean {
  return version >= window.oldest && version <= window.head
}

function byHealth (a: Candidate, b: Candidate): number {
  return Number(isHealthyAndVerified(b)) - Number(isHealthyAndVerified(a))
}

function isHealthyAndVerified ({ health, isVerified }: Candidate): boolean {
  return health.isHealthy && isVerified
}

function byPriority (a: Candidate, b: Candidate): number {
  return (a.priority ?? 0) - (b.priority ?? 0)
}

function loadByWeight ({ health, weight = 1 }: Candidate): number {
  return health.load / weight
}

function byFreeSlot (a: Candidate, b: Candidate): number {
  return Number(a.isFull ?? false) - Number(b.isFull ?? false)
}

function byHistory (a: Candidate, b: Candidate, { events }: UpstreamRequirements): number {
  return events !== undefined ? compareBigInts(a.window?.oldest ?? 0n, b.window?.oldest ?? 0n) : 0
}

// Ranks a head at or above the minimum first, then the highest head, then unknown heads.
function byHead (a: Candidate, b: Candidate, { minVersion }: UpstreamRequirements): number {
  if (minVersion === undefined) return 0
  const [headA, headB] = [a.window?.head ?? -1n, b.window?.head ?? -1n]
  return headA >= minVersion && headB >= minVersion ? 0 : compareBigInts(headB, headA)
}

function distanceTo ({ window }: Candidate, version: bigint): bigint {
  if (window === undefined) return 0n
  return version > window.head ? version - window.head : window.oldest - version
}

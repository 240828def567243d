import { compareBigInts } from '../api/position.js'
import { type Upstream, type VersionWindow } from './upstream.js'

const usecPerSecond = 1_000_000n

/** Requirements that a request puts on the upstream that serves it. */
export interface UpstreamRequirements {
  /** Version that the response describes; undefined for reads of the head or without a version. */
  readonly version: bigint | undefined
  /** Lowest version at which the response may have been read (law 5: a latest read is never older than its request). */
  readonly minVersion: bigint | undefined
  /**
   * Event reads name no version, so the longest history ranks first (law 11: "gone" is a fact, not a guess). `last` is
   * a read of the end of a stream.
   */
  readonly events: 'from' | 'last' | undefined
}

/**
 * Ranks upstreams, except cordoned ones: 1. window covers the version (unknown next), 2. healthy and verified, 3.
 * longest history, 4. head, 5. priority, 6. free slot, 7. lowest load by weight.
 */
export function rankUpstreams (all: readonly Upstream[], requirements: UpstreamRequirements): readonly Upstream[] {
  const { version } = requirements
  const candidates = all.some(isCordoned) ? all.filter(upstream => !isCordoned(upstream)) : all
  // Uses an only upstream whatever its state.
  if (candidates.length === 1) return candidates
  const byRank = (a: Upstream, b: Upstream): number =>
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
  // No known window covers the version. If it is above a head, healthy upstreams below it come first, the one furthest
  // ahead before the others; else all known windows have pruned it, and only an unknown window may have it.
  return behind.length > 0
    ? [
      ...behind.filter(isHealthyAndVerified),
      ...unknown,
      ...others.filter(candidate => !isHealthyAndVerified(candidate) || !behind.includes(candidate))
    ]
    : [...unknown, ...others]
}

/** True if the window covers the version, or if the window or the version is unknown. */
export function mayHaveVersion ({ window }: Upstream, { version }: Pick<UpstreamRequirements, 'version'>): boolean {
  return version === undefined || window === undefined || covers(window, version)
}

/** True if the last known window may hold history that the other upstream lacks. */
export function mayHaveLongerHistory (
  { window }: Upstream,
  { version }: UpstreamRequirements,
  other: Upstream
): boolean {
  if (window === undefined) return true
  if (version !== undefined) return version >= window.oldest
  return other.window === undefined || window.oldest < other.window.oldest
}

/**
 * True if the candidate may have longer history, or, for the last events, if it is further ahead than the other
 * upstream.
 */
export function mayStillHave (candidate: Upstream, requirements: UpstreamRequirements, other: Upstream): boolean {
  if (mayHaveLongerHistory(candidate, requirements, other)) return true
  return requirements.events === 'last' && candidate.window !== undefined && other.window !== undefined &&
    candidate.window.head > other.window.head
}

/** Allows a hedge only to an upstream whose response cannot be worse. */
export function mayHedge (candidate: Upstream, other: Upstream, requirements: UpstreamRequirements): boolean {
  const { window } = candidate
  if (window === undefined || !isHealthyAndVerified(candidate) || !mayHaveVersion(candidate, requirements)) return false
  // Sends no hedge to a backup, since a slow upstream can still respond.
  if (byPriority(candidate, other) > 0) return false
  const { minVersion } = requirements
  return (minVersion === undefined || window.head >= minVersion) && byHistory(candidate, other, requirements) <= 0
}

function isCordoned (upstream: Upstream): boolean {
  return upstream.isCordoned
}

function covers (window: VersionWindow, version: bigint): boolean {
  return version >= window.oldest && version <= window.head
}

function byHealth (a: Upstream, b: Upstream): number {
  return Number(isHealthyAndVerified(b)) - Number(isHealthyAndVerified(a))
}

function isHealthyAndVerified ({ health, isVerified }: Upstream): boolean {
  return health.isHealthy && isVerified
}

function byPriority (a: Upstream, b: Upstream): number {
  return a.settings.priority - b.settings.priority
}

function loadByWeight ({ health, settings }: Upstream): number {
  return health.load / settings.weight
}

function byFreeSlot (a: Upstream, b: Upstream): number {
  return Number(a.limiter.isFull) - Number(b.limiter.isFull)
}

function byHistory (a: Upstream, b: Upstream, { events }: UpstreamRequirements): number {
  return events !== undefined ? compareBigInts(a.window?.oldest ?? 0n, b.window?.oldest ?? 0n) : 0
}

// Ranks a head at or above the minimum first, then the highest head, then unknown heads.
function byHead (a: Upstream, b: Upstream, { minVersion }: UpstreamRequirements): number {
  if (minVersion === undefined) return 0
  const [headA, headB] = [a.window?.head ?? -1n, b.window?.head ?? -1n]
  return headA >= minVersion && headB >= minVersion ? 0 : compareBigInts(headB, headA)
}

function distanceTo ({ window }: Upstream, version: bigint): bigint {
  if (window === undefined) return 0n
  return version > window.head ? version - window.head : window.oldest - version
}

/** Requirements that a background request puts on its upstream. */
export interface BackgroundRequirements {
  /** Version that must be inside the upstream's window. */
  readonly version: bigint
  /** Release that the upstream should run. */
  readonly release: string | undefined
  /** Allows any release if no candidate runs the requested one. */
  readonly allowsOtherReleases: boolean
}

/**
 * Finds healthy, verified upstreams that have the version and over half of their limits free; upstreams with the
 * release go first.
 */
export function backgroundCandidates (
  upstreams: readonly Upstream[],
  { version, release, allowsOtherReleases }: BackgroundRequirements
): Upstream[] {
  const candidates = upstreams.filter(({ isUp, isVerified, isCordoned, health, window, limiter }) =>
    isUp && !isCordoned && isVerified && health.isHealthy && window !== undefined && version >= window.oldest &&
    version <= window.head &&
    limiter.hasSpareCapacity
  )
  const sameRelease = candidates.filter(upstream => upstream.release === release)
  return sameRelease.length === 0 && allowsOtherReleases ? candidates : sameRelease
}

/** Ledger time of a head, and the time for which that head has been known. */
export interface LedgerStamp {
  readonly timestampUsec: bigint
  readonly ageMs: number
}

/**
 * Returns the ledger time in seconds by which an upstream that is up lags behind the newest one or the served head,
 * whichever is more; undefined while its position is unknown.
 */
export function lagSecondsOf (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): number | undefined {
  const own = stampOf(upstream)
  if (own === undefined) return undefined
  return Math.max(
    0,
    ...[served, ...upstreams.map(stampOf)].map(stamp => {
      if (stamp === undefined) return 0
      const behind = Number((stamp.timestampUsec - own.timestampUsec) / usecPerSecond)
      // Subtracts the time for which nothing was heard of the upstream, while its ledger went on.
      return behind - Math.max(0, own.ageMs - stamp.ageMs) / 1000
    })
  )
}

function stampOf ({ isUp, stamped, stampAgeMs }: Upstream): LedgerStamp | undefined {
  return isUp && stamped !== undefined
    ? { timestampUsec: stamped.position.head.timestampUsec, ageMs: stampAgeMs }
    : undefined
}

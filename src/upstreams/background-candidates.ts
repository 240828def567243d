import { type UpstreamResponse } from '../api/upstream-response.js'
import { type Upstream } from './upstream.js'

/** Requirements that a background request puts on its upstream. */
export interface BackgroundRequirements {
  /** Version that must be inside the upstream's window. */
  readonly version: bigint
  /** Release that the upstream should run. */
  readonly release: string | undefined
  /** Allows any release where no candidate runs the requested one. */
  readonly allowsOtherReleases: boolean
}

/** Response of a background request, with the name of its upstream. */
export interface BackgroundResponse {
  readonly upstream: string
  readonly response: UpstreamResponse
}

/**
 * Finds healthy, verified upstreams with the version and over half of their limits free; those of the release go first.
 */
export function backgroundCandidates (
  upstreams: readonly Upstream[],
  { version, release, allowsOtherReleases }: BackgroundRequirements
): Upstream[] {
  const candidates = upstreams.filter(({ isUp, isVerified, isCordoned, health, window, client }) =>
    isUp && !isCordoned && isVerified && health.isHealthy && window !== undefined && version >= window.oldest &&
    version <= window.head &&
    client.limiter.hasSpareCapacity
  )
  const sameRelease = candidates.filter(({ client }) => client.release === release)
  return sameRelease.length === 0 && allowsOtherReleases ? candidates : sameRelease
}

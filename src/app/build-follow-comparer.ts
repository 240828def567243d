import { type Logger } from 'pino'
import { FollowComparer } from '../follow/follow-comparer.js'
import { type Follower } from '../follow/follower.js'
import { type FollowMetrics } from '../metrics/metrics.js'
import { type HeadPollers } from '../upstreams/head-pollers.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'

/** Parts that observing needs. */
interface ObservationParts {
  readonly upstreamPool: UpstreamPool
  readonly headPollers: HeadPollers
  readonly log: Logger
}

/** Builds the comparer of what a follower would serve, which counts and logs what it finds. */
export function buildFollowComparer (
  follower: Follower,
  counters: FollowMetrics,
  { upstreamPool, headPollers, log }: ObservationParts
): FollowComparer {
  const comparer = new FollowComparer({
    validityAt: (at, readAt, dependencies) => follower.validityAt(at, readAt, dependencies),
    headVersion: () => follower.head?.version,
    confirmRelease: async release => {
      // Polls twice, as an upstream may have been upgraded after the first poll began.
      await headPollers.pollAll()
      await headPollers.pollAll()
      return upstreamPool.upstreams.every(({ client }) => client.release === release)
    },
    onObserved: ({ endpoint, family, version }, result) => {
      counters.observed(endpoint, result)
      if (result === 'equal') follower.recordSaved()
      if (result === 'different') {
        log.error({ endpoint, read: family, version: String(version) }, 'following would have served another response')
      }
    }
  })
  follower.versionRead.subscribe(({ version, isFirst }) => {
    if (isFirst) comparer.onBegin(version)
    else comparer.onVersion(version)
  })
  return comparer
}

import { type FollowMode } from '../tail.js'
import { type SimulatedUpstream } from '../simulation/simulated-upstream.js'

/** Micro-cache time of the state at the head. */
export const stateMs = 250
/** Token for changing calls of the admin listener. */
export const token = 's0ak'

/** Tiers below memory; a path that is null turns the disk tier off. */
export interface LowerTiers {
  readonly redisUrl: string
  readonly diskPath: string | null
}

/** Returns a configuration with small limits and lifetimes; each turn gives another one for a reload. */
export function configurationOf (
  upstreams: readonly SimulatedUpstream[],
  { redisUrl, diskPath }: LowerTiers,
  round: number,
  followMode: FollowMode
): object {
  // Some reloads stop following, and the next one begins again.
  const mode = round % 5 === 4 ? 'off' : followMode
  return {
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token },
    head: { pollMs: 1000 },
    // Limits slots, so that bursts queue at slow upstreams; sometimes an upstream is replaced under its name.
    upstreams: upstreams.map(({ name, url }, at) => ({
      name,
      url,
      timeoutMs: at === round % 5 ? 1001 : 1000,
      maxConcurrent: 8,
      requestsPerSecond: 500
    })),
    hedge: { share: 0.1, afterMs: 100 + round % 3 },
    waitForVersion: { ms: 400 },
    cache: {
      memory: { maxMb: 1 },
      // Room for some hundred entries, so that the disk evicts too.
      disk: { path: diskPath, maxGb: 0.01 },
      maxEntryMb: 1,
      redis: { url: redisUrl, timeoutMs: 200 }
    },
    follow: { mode, maxAgeMs: stateMs, verify: 0.2 },
    latest: { stateMs: mode === 'on' ? 0 : stateMs, infoMs: 1000, gasMs: 500 },
    pages: { pinned: true },
    audit: { share: 0.2, followedShare: 0.2 },
    downstream: { cacheControl: round % 2 === 0 ? 'revalidate' : 'immutable' }
  }
}

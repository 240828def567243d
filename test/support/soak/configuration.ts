import { type SimulatedUpstream } from '../simulation/simulated-upstream.js'

/** How long the state at the head is held. */
export const stateMs = 250
/** What changing calls of the admin listener need. */
export const token = 's0ak'

/**
 * All that takes room or time, with little of both; each turn is another configuration, to go over to while it serves.
 */
export function configurationOf (nodes: readonly SimulatedUpstream[], redisUrl: string, turn: number): object {
  return {
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token },
    head: { pollMs: 1000 },
    // Queues form where a burst comes upon a slow node. Now and then a node leaves, and another one comes under its
    // name.
    upstreams: nodes.map(({ name, url }, at) => ({
      name,
      url,
      timeoutMs: at === turn % 5 ? 1001 : 1000,
      maxConcurrent: 8,
      requestsPerSecond: 500
    })),
    hedge: { share: 0.1, burst: 10, afterMs: 100 + turn % 3 },
    waitForVersion: { ms: 400, blocks: 2 },
    cache: { memory: { maxMb: 1 }, maxEntryMb: 1, redis: { url: redisUrl, timeoutMs: 200 } },
    latest: { stateMs, infoMs: 1000, gasMs: 500 },
    pages: { pinned: true },
    audit: { share: 0.2 },
    downstream: { cacheControl: turn % 2 === 0 ? 'revalidate' : 'immutable' }
  }
}

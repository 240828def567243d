import { isDeepStrictEqual } from 'node:util'
import { type Config } from '../config/schema.js'
import { UpstreamPool } from '../upstreams/upstream-pool.js'
import { readHead } from '../chain/head-poll.js'
import { Hedger } from '../upstreams/hedger.js'
import { type RememberedUpstream } from '../cluster/control-record.js'
import { type GenerationOptions } from '../chain/generation-options.js'
import { withTimeout } from '../with-timeout.js'
import {
  type NamedUpstream,
  type UpstreamMonitorOptions,
  type MonitoredUpstream,
  monitorUpstream
} from './monitored-upstream.js'
import { blockReaderOf, ChainVerifier } from '../chain/chain-verifier.js'

/** Configured upstreams with their health polling. */
export interface UpstreamMonitor {
  readonly pool: UpstreamPool
  /** Chain data from a verified upstream (law 7). */
  readonly chainSource: Pick<GenerationOptions, 'readBlock' | 'readHead'>
  /** Upstreams in the form that the control record in Redis stores. */
  rememberedUpstreams(): readonly RememberedUpstream[]
  /** Polls all upstreams; resolves when the chain is known or all polls have ended. */
  resolveChain(): Promise<void>
  /** Polls one upstream by name. */
  poll(name: string): Promise<void>
  /** Polls healthy upstreams at once, because a read waits for a version. */
  pollHealthy(): void
  /** Drops the state of the old chain and polls all upstreams (law 7). */
  resetChain(): void
  /** Verifies every upstream again after another process reported a chain reset (law 7). */
  markUnverified(): void
  /** Starts polling; resolves when the chain is known or all first polls have ended. */
  start(): Promise<void>
  /**
   * Applies another upstream list; unchanged upstreams stay untouched. Resolves after first polls of new upstreams,
   * within a time limit.
   */
  reload(config: Config): Promise<void>
  stop(): void
  close(): Promise<void>
}

// Limits polls of quarantined upstreams, which reads cause, to one round per interval.
const unreachablePollEveryMs = 250
// Removed upstreams wait this long for the first polls of new ones.
const firstPollMs = 3000

/** Builds the upstream pool with its health polling. */
export function buildUpstreamMonitor (
  config: Config,
  sandboxUrl: string | undefined,
  options: UpstreamMonitorOptions
): UpstreamMonitor {
  const { now, tracker, releases, generations, metrics } = options
  let lastPolledAll = -Infinity
  let monitored: readonly MonitoredUpstream[] = []
  const draining = new Set<MonitoredUpstream>()
  const monitorAll = (of: Config): MonitoredUpstream[] =>
    namedUpstreamsOf(of, sandboxUrl).map(upstream =>
      monitored.find(one => isDeepStrictEqual(one.config, upstream)) ??
        monitorUpstream(upstream, of, options, {
          pool: () => pool,
          chainVerifier: () => chainVerifier,
          monitored: () => monitored
        })
    )
  const pollAll = async (): Promise<void> => {
    await Promise.all(monitored.map(async ({ poll }) => {
      await poll.poll()
    }))
  }
  const waitForChain = async (polls: ReadonlyArray<Promise<void>>): Promise<void> => {
    for (const word of polls) if (tracker.position === undefined) await word
  }
  monitored = monitorAll(config)
  const pool: UpstreamPool = new UpstreamPool(upstreamsOf(monitored), hedgesOf(config), releases, {
    wallClockMs: () => performance.timeOrigin + now(),
    onOldest: oldest => {
      tracker.setOldest(oldest)
    },
    onAllQuarantined: async () => {
      if (now() - lastPolledAll < unreachablePollEveryMs) return
      lastPolledAll = now()
      await pollAll()
    }
  })
  const chainVerifier = new ChainVerifier(pool, generations, now)
  releases.useUpCheck(name => pool.upstreams.some(({ isUp, client }) => isUp && client.name === name))
  return {
    pool,
    chainSource: {
      readBlock: async height => pool.referenceUpstream && await blockReaderOf(pool.referenceUpstream)(height),
      readHead: async () => {
        const { referenceUpstream } = pool
        return referenceUpstream && await readHead(async question => await referenceUpstream.client.fetch(question))
      }
    },
    rememberedUpstreams: () =>
      monitored.map(({ config: { url }, upstream: member }) => ({ url, isOnChain: () => member.isOnChain })),
    resolveChain: async () => {
      await waitForChain(monitored.map(async ({ poll }) => {
        await poll.poll()
      }))
    },
    poll: async name => {
      await monitored.find(({ config: upstream }) => upstream.name === name)?.poll.poll()
    },
    pollHealthy: () => {
      // Skips down upstreams, which have their own polls, rate-limited ones, and busy ones, whose slots belong to
      // reads.
      for (const { upstream: { isUp, health, client }, poll } of monitored) {
        if (isUp && !health.isBackingOff && !client.budget.isBusy()) poll.poll().catch(() => {})
      }
    },
    resetChain: () => {
      pool.resetChain(tracker.chainId)
      pollAll().catch(() => {})
    },
    markUnverified: () => {
      for (const { upstream: member } of monitored) member.markUnverified()
      pollAll().catch(() => {})
    },
    start: async () => {
      await waitForChain(monitored.map(async one => {
        await one.start()
      }))
    },
    reload: async next => {
      const before = monitored
      const after = monitorAll(next)
      // New upstreams are verified against present ones, so none leaves before that has finished (law 7).
      monitored = [...after, ...before.filter(one => !after.includes(one))]
      pool.replaceUpstreams(upstreamsOf(monitored), undefined)
      await withTimeout(
        firstPollMs,
        Promise.all(after.map(async one => {
          if (!before.includes(one)) await one.start()
        }))
      )
      monitored = after
      pool.replaceUpstreams(upstreamsOf(monitored), hedgesOf(next))
      for (const one of before) if (!after.includes(one)) drain(one).catch(() => {})
    },
    stop: () => {
      for (const { poll } of monitored) poll.stop()
    },
    close: async () => {
      await Promise.all([...monitored, ...draining].map(async ({ upstream: member }) => {
        await member.client.close()
      }))
    }
  }

  function hedgesOf ({ hedge }: Config): Hedger | undefined {
    return monitored.length > 1 && hedge.share > 0 && hedge.burst > 0 ? new Hedger(hedge, metrics) : undefined
  }

  // Requests in flight finish before the connection closes.
  async function drain (one: MonitoredUpstream): Promise<void> {
    one.poll.stop()
    draining.add(one)
    await one.upstream.client.drain()
    draining.delete(one)
  }
}

function upstreamsOf (monitored: readonly MonitoredUpstream[]): Array<MonitoredUpstream['upstream']> {
  return monitored.map(({ upstream }) => upstream)
}

/** Assigns names to configured upstreams; a sandbox replaces them all. */
export function namedUpstreamsOf (config: Config, sandboxUrl: string | undefined): readonly NamedUpstream[] {
  if (sandboxUrl === undefined) {
    return config.upstreams.map((upstream, at) => ({ ...upstream, name: upstream.name ?? `node-${at + 1}` }))
  }
  return [{
    name: 'sandbox',
    url: sandboxUrl,
    headers: {},
    timeoutMs: 5000,
    maxConcurrent: 256,
    requestsPerSecond: null,
    caFile: null,
    ignoreCacheControl: false
  }]
}

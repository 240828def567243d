import { UpstreamPool } from '../upstreams/upstream-pool.js'
import { type Hedger } from '../upstreams/hedger.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type RememberedUpstream } from '../cluster/control-record.js'
import { type Tracker } from '../chain/tracker.js'
import { type MonitoredUpstream } from './monitored-upstream.js'

// Limits polls of quarantined upstreams, which reads cause, to one round per interval.
const unreachablePollEveryMs = 250

/** Upstreams with their health polling; empty until a configuration is applied (`UpstreamLifecycle`). */
export class UpstreamMonitor {
  readonly pool: UpstreamPool
  readonly #tracker: Tracker
  readonly #now: () => number
  #monitored: readonly MonitoredUpstream[] = []
  #polledAllAtMs = -Infinity

  constructor (tracker: Tracker, now: () => number) {
    this.#tracker = tracker
    this.#now = now
    this.pool = new UpstreamPool({
      wallClockMs: () => performance.timeOrigin + now(),
      onOldest: oldest => {
        tracker.setOldest(oldest)
      },
      onAllQuarantined: async () => {
        await this.#pollQuarantined()
      }
    })
  }

  /** Monitored upstreams in configuration order. */
  get monitored (): readonly MonitoredUpstream[] {
    return this.#monitored
  }

  /** Replaces the upstreams for new requests. */
  replace (monitored: readonly MonitoredUpstream[], hedger: Hedger | undefined): void {
    this.#monitored = monitored
    this.pool.replaceUpstreams(monitored.map(({ upstream }) => upstream), hedger)
  }

  /** Upstreams in the form that the control record in Redis stores. */
  get rememberedUpstreams (): readonly RememberedUpstream[] {
    return this.#monitored.map(({ config: { url }, upstream }) => ({ url, isOnChain: () => upstream.isOnChain }))
  }

  /** Polls all upstreams; resolves when the chain is known or all polls have ended. */
  async resolveChain (): Promise<void> {
    await this.waitForChain(this.#monitored.map(async ({ poll }) => {
      await poll.poll()
    }))
  }

  /** Resolves when the chain is known or all these polls, in configuration order, have ended. */
  async waitForChain (polls: ReadonlyArray<Promise<void>>): Promise<void> {
    for (const poll of polls) if (this.#tracker.position === undefined) await poll
  }

  /** Resolves after the first polls of unknown upstreams before this one in configuration order. */
  async waitForEarlier (upstream: Upstream): Promise<void> {
    const earlier = this.#monitored.slice(0, this.#monitored.findIndex(one => one.upstream === upstream))
    await Promise.all(earlier.map(async other => {
      if (other.upstream.isUnknown) await other.poll.first()
    }))
  }

  /** Polls one upstream by name. */
  async poll (name: string): Promise<void> {
    await this.#monitored.find(({ config }) => config.name === name)?.poll.poll()
  }

  /**
   * Polls healthy upstreams at once, because a read waits for a version. Skips down upstreams, which have their own
   * polls, rate-limited ones, and busy ones, whose slots belong to reads.
   */
  pollHealthy (): void {
    for (const { upstream: { isUp, health, client }, poll } of this.#monitored) {
      if (isUp && !health.isBackingOff && !client.budget.isBusy()) poll.poll().catch(() => {})
    }
  }

  /** Drops the state of the old chain and polls all upstreams (law 7: chains never mix). */
  resetChain (): void {
    this.pool.resetChain(this.#tracker.chainId)
    this.#pollAll().catch(() => {})
  }

  /** Verifies every upstream again after another process reported a chain reset (law 7: chains never mix). */
  markUnverified (): void {
    for (const { upstream } of this.#monitored) upstream.markUnverified()
    this.#pollAll().catch(() => {})
  }

  async #pollQuarantined (): Promise<void> {
    if (this.#now() - this.#polledAllAtMs < unreachablePollEveryMs) return
    this.#polledAllAtMs = this.#now()
    await this.#pollAll()
  }

  async #pollAll (): Promise<void> {
    await Promise.all(this.#monitored.map(async ({ poll }) => {
      await poll.poll()
    }))
  }
}

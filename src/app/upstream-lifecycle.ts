import { isDeepStrictEqual } from 'node:util'
import { type Config } from '../config/schema.js'
import { Hedger, type HedgeMetrics } from '../upstreams/hedger.js'
import { withTimeout } from '../with-timeout.js'
import {
  type MonitoredUpstream,
  type MonitoredUpstreamOptions,
  type NamedUpstream,
  monitorUpstream
} from './monitored-upstream.js'
import { type UpstreamMonitor } from './upstream-monitor.js'

// Removed upstreams wait this long for the first polls of new ones.
const firstPollMs = 3000

/** Parts that building an upstream needs. */
export interface UpstreamLifecycleOptions extends Omit<MonitoredUpstreamOptions, 'pool'> {
  readonly monitor: UpstreamMonitor
  readonly sandboxUrl: string | undefined
  readonly metrics: MonitoredUpstreamOptions['metrics'] & HedgeMetrics
}

/** Builds the upstreams of a configuration, and replaces them at a reload. */
export class UpstreamLifecycle {
  readonly #monitor: UpstreamMonitor
  readonly #options: UpstreamLifecycleOptions
  readonly #draining = new Set<MonitoredUpstream>()

  /** Applies the configuration without a poll: the first polls belong to `start`. */
  constructor (config: Config, options: UpstreamLifecycleOptions) {
    this.#monitor = options.monitor
    this.#options = options
    this.#apply(this.#monitoredOf(config), config)
  }

  /** Starts polling; resolves when the chain is known or all first polls have ended. */
  async start (): Promise<void> {
    await this.#monitor.waitForChain(this.#monitor.monitored.map(async ({ poll }) => {
      await poll.start()
    }))
  }

  /**
   * Applies another upstream list; unchanged upstreams stay untouched. Resolves after first polls of new upstreams,
   * within a time limit.
   */
  async reload (config: Config): Promise<void> {
    const before = this.#monitor.monitored
    const after = this.#monitoredOf(config)
    // New upstreams are verified against present ones, so none leaves before that has finished (law 7).
    this.#monitor.replace([...after, ...before.filter(one => !after.includes(one))], undefined)
    await withTimeout(
      firstPollMs,
      Promise.all(after.map(async one => {
        if (!before.includes(one)) await one.poll.start()
      }))
    )
    this.#apply(after, config)
    for (const one of before) if (!after.includes(one)) this.#drain(one).catch(() => {})
  }

  stop (): void {
    for (const { poll } of this.#monitor.monitored) poll.stop()
  }

  async close (): Promise<void> {
    await Promise.all([...this.#monitor.monitored, ...this.#draining].map(async ({ upstream }) => {
      await upstream.client.close()
    }))
  }

  #monitoredOf (config: Config): MonitoredUpstream[] {
    const { monitored, pool } = this.#monitor
    return namedUpstreamsOf(config, this.#options.sandboxUrl).map(upstream =>
      monitored.find(one => isDeepStrictEqual(one.config, upstream)) ??
        monitorUpstream(upstream, config, { ...this.#options, pool })
    )
  }

  #apply (monitored: readonly MonitoredUpstream[], { hedge }: Config): void {
    const isHedging = monitored.length > 1 && hedge.share > 0 && hedge.burst > 0
    this.#monitor.replace(monitored, isHedging ? new Hedger(hedge, this.#options.metrics) : undefined)
  }

  // Requests in flight finish before the connection closes.
  async #drain (one: MonitoredUpstream): Promise<void> {
    one.poll.stop()
    this.#draining.add(one)
    await one.upstream.client.drain()
    this.#draining.delete(one)
  }
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

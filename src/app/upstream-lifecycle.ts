import { isDeepStrictEqual } from 'node:util'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { Hedger, type HedgeMetrics } from '../upstreams/hedger.js'
import { type HeadPollers } from '../upstreams/head-pollers.js'
import { withTimeout } from '../with-timeout.js'
import {
  type MonitoredUpstream,
  type MonitoredUpstreamOptions,
  digestCertificates,
  monitorUpstream
} from './monitored-upstream.js'

// Removed upstreams wait this long for the first polls of new ones.
const firstPollMs = 3000

/** Parts that building an upstream needs. */
export interface UpstreamLifecycleOptions extends MonitoredUpstreamOptions {
  readonly headPollers: HeadPollers
  readonly sandbox: NamedUpstream | undefined
  readonly metrics: MonitoredUpstreamOptions['metrics'] & HedgeMetrics
}

/** Builds the upstreams of a configuration, and replaces them at a reload. */
export class UpstreamLifecycle {
  readonly #options: UpstreamLifecycleOptions
  #monitored: readonly MonitoredUpstream[] = []
  readonly #draining = new Set<MonitoredUpstream>()

  /** Applies the configuration without a poll: the first polls belong to `start`. */
  constructor (config: Config, options: UpstreamLifecycleOptions) {
    this.#options = options
    this.#apply(this.#monitoredOf(config), config)
  }

  /**
   * Applies another upstream list; unchanged upstreams stay untouched. Resolves after first polls of new upstreams,
   * within a time limit.
   */
  async reload (config: Config): Promise<void> {
    const before = this.#monitored
    const after = this.#monitoredOf(config)
    // New upstreams are verified against present ones, so none leaves before that has finished (law 7: chains never
    // mix).
    this.#replace([...after, ...before.filter(one => !after.includes(one))], undefined)
    await withTimeout(
      firstPollMs,
      Promise.all(after.map(async one => {
        if (!before.includes(one)) await one.poll.start()
      }))
    )
    this.#apply(after, config)
    for (const one of before) if (!after.includes(one)) this.#drain(one).catch(() => {})
  }

  async close (): Promise<void> {
    await Promise.all([...this.#monitored, ...this.#draining].map(async ({ upstream }) => {
      await upstream.client.close()
    }))
  }

  #monitoredOf (config: Config): MonitoredUpstream[] {
    return namedUpstreamsOf(config, this.#options.sandbox).map(upstream =>
      this.#monitored.find(one =>
        isDeepStrictEqual(one.config, upstream) && one.certificates === digestCertificates(upstream)
      ) ??
        monitorUpstream(upstream, config, this.#options)
    )
  }

  #apply (monitored: readonly MonitoredUpstream[], { hedge }: Config): void {
    const isHedging = monitored.length > 1 && hedge.share > 0
    this.#replace(monitored, isHedging ? new Hedger(hedge, this.#options.metrics) : undefined)
  }

  #replace (monitored: readonly MonitoredUpstream[], hedger: Hedger | undefined): void {
    this.#monitored = monitored
    this.#options.headPollers.replace(monitored)
    this.#options.pool.replaceUpstreams(monitored.map(({ upstream }) => upstream), hedger)
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
export function namedUpstreamsOf ({ upstreams }: Config, sandbox: NamedUpstream | undefined): readonly NamedUpstream[] {
  return sandbox === undefined
    ? upstreams.map((upstream, at) => ({ ...upstream, name: upstream.name ?? `node-${at + 1}` }))
    : [sandbox]
}

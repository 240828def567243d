import { isDeepStrictEqual } from 'node:util'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { pollLimitsOf } from '../upstreams/polling-policy.js'
import { SharedPoller } from '../upstreams/shared-poller.js'
import { UpstreamClient, type UpstreamMetrics } from '../upstreams/upstream-client.js'
import { type ChainResetCount, type FolderState } from '../workers/messages.js'
import { type WorkerPool, type WorkerPoolOptions } from '../workers/worker-pool.js'
import { type CrossWorkerMessage, type WorkerHandle } from '../workers/worker-handle.js'
import { withFixedAddress } from './monitored-upstream.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { workerUpstreamLimitsOf } from '../config/worker-upstream-limits.js'

// Responses to polls are small.
const maxPollBytes = 65_536

/** Message of a worker that concerns workers of every configuration. */
export type CrossConfigMessage = Exclude<CrossWorkerMessage, { kind: 'poll' | 'head' | 'follow' | 'follow_demand' }>

/** Parts of the primary process that the workers of every configuration share. */
export interface SharedParts {
  readonly workerPool: WorkerPool
  readonly metrics: UpstreamMetrics
  readonly now: () => number
  readonly resetCount: () => ChainResetCount
  readonly cordoned: () => readonly string[]
  readonly folder: () => FolderState | undefined
  readonly onMessage: (message: CrossConfigMessage, from: WorkerHandle) => void
}

/** Workers of one configuration, each with its share of the limits; upstreams and heads are theirs alone. */
export class WorkerGroup implements WorkerPoolOptions {
  readonly count: number
  readonly poller: SharedPoller
  #config: Config
  #polled: ReadonlyArray<{ readonly upstream: NamedUpstream, readonly client: UpstreamClient }> = []
  readonly #sandbox: NamedUpstream | undefined
  readonly #shared: SharedParts
  #tailReader: WorkerHandle | undefined

  constructor (config: Config, sandbox: NamedUpstream | undefined, shared: SharedParts) {
    const { workerPool, now } = shared
    this.count = config.workers
    this.#config = config
    this.#sandbox = sandbox
    this.#shared = shared
    this.poller = new SharedPoller(this.#clientsOf(config), now, (upstream, target, result) => {
      workerPool.broadcast(this, { kind: 'poll_result', upstream, target, result })
    })
  }

  /** Replaces the upstreams of running workers, and of those that start later. */
  replaceUpstreams (config: Config): void {
    this.#config = config
    this.poller.replaceClients(this.#clientsOf(config))
    this.#shared.workerPool.broadcast(this, { kind: 'upstreams', config: workerConfigOf(config) })
  }

  // Keeps the client of an unchanged upstream, whose polls in flight count.
  #clientsOf (config: Config): UpstreamClient[] {
    const { metrics, now } = this.#shared
    this.#polled = namedUpstreamsOf(config, this.#sandbox).map(upstream =>
      this.#polled.find(one => isDeepStrictEqual(one.upstream, upstream)) ?? {
        upstream,
        client: new UpstreamClient({
          ...withFixedAddress(upstream),
          ...pollLimitsOf(upstream, config.head.pollMs),
          maxBufferedBytes: maxPollBytes,
          now
        }, metrics)
      }
    )
    return this.#polled.map(({ client }) => client)
  }

  startMessage (): ReturnType<WorkerPoolOptions['startMessage']> {
    const config = workerConfigOf(this.#config)
    return {
      kind: 'start',
      config,
      sandbox: this.#sandbox,
      resetCount: this.#shared.resetCount(),
      cordoned: this.#shared.cordoned(),
      folder: this.#shared.folder()
    }
  }

  /** Returns the worker that reads the tail for all; the first to need it, after the former one is gone. */
  #tailReaderFor (from: WorkerHandle): WorkerHandle {
    if (this.#tailReader?.isListening !== true) {
      this.#tailReader = from
      from.send({ kind: 'follow_lead' })
    }
    return this.#tailReader
  }

  onMessage (message: CrossWorkerMessage, from: WorkerHandle): void {
    switch (message.kind) {
      case 'poll':
        return this.poller.poll(message.upstream, message.target, message.timeoutMs)
      case 'head':
      case 'follow':
        return this.#shared.workerPool.broadcast(this, message, from)
      case 'follow_demand':
        return this.#tailReaderFor(from).send(message)
      case 'chain_reset':
        this.#shared.onMessage(message, from)
        return this.#shared.workerPool.broadcast(this, message, from)
      case 'take':
      case 'refund':
      case 'disk_change':
      case 'disk_used':
      case 'invalidated':
      case 'final_report':
        this.#shared.onMessage(message, from)
    }
  }
}

/** Returns the configuration of one worker, with its share of each limit of the process group. */
export function workerConfigOf (config: Config): Config {
  const { workers, upstreams, cache, limits, head: { pollMs } } = config
  return {
    ...config,
    upstreams: upstreams.map(upstream => ({ ...upstream, ...workerUpstreamLimitsOf(upstream, pollMs, workers) })),
    limits: {
      ...limits,
      connections: limits.connections && Math.max(1, Math.floor(limits.connections / workers)),
      inFlightMb: inFlightMbOf(config) / workers
    },
    cache: { ...cache, memory: { maxMb: Math.floor(cache.memory.maxMb * bytesPerMb / workers) / bytesPerMb } }
  }
}

import { isDeepStrictEqual } from 'node:util'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { pollLimitsOf } from '../upstreams/polling-policy.js'
import { SharedPoller } from '../upstreams/shared-poller.js'
import { UpstreamClient } from '../upstreams/upstream-client.js'
import { type Metrics } from '../metrics/metrics.js'
import { type DiskToPrimary, type FolderState } from '../peers/disk-messages.js'
import { type PrimaryMethods, type RecordPlace, type SentMessage, type StartMessage } from '../peers/messages.js'
import { MemoryRecords, type Records } from '../peers/records.js'
import { type WorkerPool, type WorkerPoolOptions } from '../peers/worker-pool.js'
import { type WorkerHandle } from '../peers/worker-handle.js'
import { withFixedAddress } from './monitored-upstream.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { workerUpstreamLimitsOf } from '../config/worker-upstream-limits.js'
import { type RedisConnection } from './components.js'

// A worker that still starts applies the change afterwards.
const replaceTimeoutMs = 60_000
// Responses to polls are small.
const maxPollBytes = 65_536

/** Methods that workers of every configuration share. */
export type SharedMethods = Omit<PrimaryMethods, 'poll' | 'readRecord' | 'replaceRecord' | 'lease'>

/** Parts of the primary process that the workers of every configuration share. */
export interface GroupOptions {
  /** Names the configuration. */
  readonly name: string
  readonly config: Config
  readonly sandbox: NamedUpstream | undefined
  readonly workerPool: WorkerPool
  readonly metrics: Metrics
  readonly now: () => number
  /** Connection to Redis of all these workers, which are one peer of the other hosts. */
  readonly redis: RedisConnection | undefined
  readonly cordoned: () => readonly string[]
  readonly folder: () => FolderState | undefined
  readonly sharedMethodsFor: (worker: WorkerHandle) => SharedMethods
  readonly onMessage: (message: SentMessage | DiskToPrimary, from: WorkerHandle) => void
}

/** Workers of one configuration, each with its share of the limits; what they share is theirs alone. */
export class WorkerGroup implements WorkerPoolOptions {
  readonly count: number
  readonly #name: string
  readonly #options: GroupOptions
  readonly #poller: SharedPoller
  readonly #records: { readonly host: Records, readonly redis: Records | undefined }
  readonly #leases = new Map<string, WorkerHandle>()
  #config: Config
  #connecting: Promise<void> | undefined
  #polled: ReadonlyArray<{ readonly upstream: NamedUpstream, readonly client: UpstreamClient }> = []

  constructor (options: GroupOptions) {
    const { name, config, redis, workerPool, now } = options
    this.#name = name
    this.count = config.workers
    this.#config = config
    this.#options = options
    this.#records = { host: new MemoryRecords(), redis: redis?.carrier.redisRecords }
    this.#poller = new SharedPoller(this.#clientsOf(config), now, (upstream, target, result) => {
      workerPool.broadcast({ kind: 'polled', configuration: this.#name, upstream, target, result })
    })
    redis?.carrier.subscribe(message => {
      workerPool.broadcast({ ...message, configuration: this.#name })
    })
  }

  /** Replaces the upstreams of running workers, and of those that start later. */
  replaceUpstreams (config: Config): void {
    this.#config = config
    this.#poller.replaceClients(this.#clientsOf(config))
    for (const worker of this.#options.workerPool.all) {
      if (worker.hasSpec(this)) {
        worker.calls.call(replaceTimeoutMs, 'replaceUpstreams', workerConfigOf(config)).catch(() => {})
      }
    }
  }

  startMessage (): StartMessage {
    const { sandbox, cordoned, folder } = this.#options
    const config = workerConfigOf(this.#config)
    return { kind: 'start', configuration: this.#name, config, sandbox, cordoned: cordoned(), folder: folder() }
  }

  methodsFor (worker: WorkerHandle): PrimaryMethods {
    return {
      ...this.#options.sharedMethodsFor(worker),
      poll: (upstream, target, timeoutMs) => {
        this.#poller.poll(upstream, target, timeoutMs)
      },
      readRecord: async (place, name) => await (await this.#recordsOf(place))?.read(name),
      replaceRecord: async (place, name, before, after) =>
        await (await this.#recordsOf(place))?.replace(name, before, after) === true,
      lease: name => {
        if (this.#leases.get(name)?.isListening !== true) this.#leases.set(name, worker)
        return this.#leases.get(name) === worker
      }
    }
  }

  /** Passes a message on, to the other workers and to the other hosts. */
  onMessage (message: SentMessage | DiskToPrimary, from: WorkerHandle): void {
    const { workerPool, redis, onMessage } = this.#options
    if (message.kind !== 'disk_change' && message.kind !== 'disk_used') {
      workerPool.broadcast(message, from)
      redis?.carrier.publish(message)
    }
    onMessage(message, from)
  }

  async close (): Promise<void> {
    const { redis } = this.#options
    redis?.carrier.stop()
    redis?.link.stop()
    await this.#poller.close()
  }

  async #recordsOf (place: RecordPlace): Promise<Records | undefined> {
    if (place === 'redis') await (this.#connecting ??= this.#connect())
    return this.#records[place]
  }

  /** Connects to Redis for the first worker that needs it, which listens by then. */
  async #connect (): Promise<void> {
    const { redis, workerPool } = this.#options
    const notify = (isRedisUp: boolean) => (): void => {
      workerPool.broadcast({ kind: 'changed', configuration: this.#name, isRedisUp })
    }
    redis?.carrier.start()
    await redis?.link.start({ onUp: notify(true), onDown: notify(false) })
  }

  // Keeps the client of an unchanged upstream, whose polls in flight count.
  #clientsOf (config: Config): UpstreamClient[] {
    const { metrics, now, sandbox } = this.#options
    this.#polled = namedUpstreamsOf(config, sandbox).map(upstream =>
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

import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import {
  type PrimaryMethods,
  type RecordPlace,
  type SentMessage,
  type LogSettings,
  type StartMessage
} from '../peers/messages.js'
import { HostLeases } from '../peers/host-leases.js'
import { MemoryRecords, type Records } from '../peers/records.js'
import { type WorkerPool, type WorkerPoolOptions } from '../peers/worker-pool.js'
import { type WorkerHandle } from '../peers/worker-handle.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { type RedisConnection } from './redis.js'

// A worker that still starts applies the change afterwards.
const replaceTimeoutMs = 60_000

/** Methods that workers of every configuration share. */
export type SharedMethods = Omit<
  PrimaryMethods,
  'readRecord' | 'replaceRecord' | 'lease' | 'release' | 'takeLease' | 'renewLease' | 'endLease'
>

/** Parts of the primary process that the workers of every configuration share. */
export interface GroupOptions {
  /** Names the configuration. */
  readonly name: string
  readonly config: Config
  readonly sandbox: NamedUpstream | undefined
  readonly workerPool: WorkerPool
  readonly now: () => number
  /** Connection to Redis of all these workers, which are one peer of the other hosts. */
  readonly redis: RedisConnection | undefined
  readonly cordoned: () => readonly string[]
  readonly log: LogSettings | undefined
  readonly sharedMethodsFor: (worker: WorkerHandle) => SharedMethods
  readonly onMessage: (message: SentMessage) => void
}

/** Workers of one configuration, each with its share of the limits; what they share is theirs alone. */
export class WorkerGroup implements WorkerPoolOptions {
  readonly count: number
  readonly #name: string
  readonly #options: GroupOptions
  readonly #records: { readonly host: Records, readonly redis: Records | undefined }
  readonly #leases = new Map<string, { readonly worker: WorkerHandle, readonly untilMs: number }>()
  readonly #fetches: HostLeases<WorkerHandle>
  #config: Config
  #connecting: Promise<void> | undefined

  constructor (options: GroupOptions) {
    const { name, config, redis, workerPool, now } = options
    this.#name = name
    this.#fetches = new HostLeases(now)
    this.count = config.workers
    this.#config = config
    this.#options = options
    this.#records = { host: new MemoryRecords(), redis: redis?.carrier.redisRecords }
    redis?.carrier.subscribe(message => {
      workerPool.broadcast({ ...message, configuration: this.#name })
    })
  }

  /** Replaces the upstreams of running workers, and of those that start later. */
  replaceUpstreams (config: Config): void {
    this.#config = config
    for (const worker of this.#options.workerPool.all) {
      if (worker.hasSpec(this)) {
        worker.calls.call(replaceTimeoutMs, 'replaceUpstreams', workerConfigOf(config)).catch(() => {})
      }
    }
  }

  startMessage (): StartMessage {
    const { sandbox, cordoned, log } = this.#options
    return {
      kind: 'start',
      configuration: this.#name,
      config: workerConfigOf(this.#config),
      sandbox,
      cordoned: cordoned(),
      log
    }
  }

  methodsFor (worker: WorkerHandle): PrimaryMethods {
    const { sharedMethodsFor, now } = this.#options
    return {
      ...sharedMethodsFor(worker),
      readRecord: async (place, name) => await (await this.#recordsOf(place))?.read(name),
      replaceRecord: async (place, name, before, after) =>
        await (await this.#recordsOf(place))?.replace(name, before, after) === true,
      lease: (name, ms) => {
        const lease = this.#leases.get(name)
        const isTaken = lease?.worker.isListening === true && lease.worker !== worker && now() < lease.untilMs
        if (!isTaken) this.#leases.set(name, { worker, untilMs: now() + ms })
        return !isTaken
      },
      release: name => this.#leases.get(name)?.worker === worker && this.#leases.delete(name),
      takeLease: (...lease) => this.#fetches.take(worker, ...lease),
      renewLease: (...lease) => {
        this.#fetches.renew(...lease)
      },
      endLease: (...lease) => this.#fetches.end(...lease)
    }
  }

  /** Passes a message on, to the other workers and to the other hosts. */
  onMessage (message: SentMessage, from: WorkerHandle): void {
    const { workerPool, redis, onMessage } = this.#options
    if (message.kind === 'fetched' && message.token !== undefined) {
      for (const worker of this.#fetches.takeWaiters(message.lease, message.token)) worker.send(message)
      return
    }
    workerPool.broadcast(message, from)
    redis?.carrier.publish(message)
    onMessage(message)
  }

  /** Makes fetches in flight useless to others, because a purge begins. */
  endFetches (): void {
    for (const [lease, waiters] of this.#fetches.endAll()) {
      for (const worker of waiters) worker.send({ kind: 'fetched', lease, isStored: undefined })
    }
  }

  close (): void {
    const { redis } = this.#options
    redis?.carrier.stop()
    redis?.link.stop()
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
}

/** Returns the configuration of one worker, with its share of each limit of the process group. */
export function workerConfigOf (config: Config): Config {
  const { workers, upstreams, cache, limits } = config
  return {
    ...config,
    upstreams: upstreams.map(upstream => ({
      ...upstream,
      maxConcurrent: Math.floor(upstream.maxConcurrent / workers)
    })),
    limits: {
      ...limits,
      connections: limits.connections && Math.max(1, Math.floor(limits.connections / workers)),
      inFlightMb: inFlightMbOf(config) / workers
    },
    cache: { ...cache, memory: { maxMb: Math.floor(cache.memory.maxMb * bytesPerMb / workers) / bytesPerMb } }
  }
}

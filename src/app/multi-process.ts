import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type Logger } from 'pino'
import { type LogKeeper, type LogMember } from '../cache/disk-keeper.js'
import { LocalBuckets } from '../clients/token-buckets.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { bytesPerMb, inFlightMbOf } from '../config/units.js'
import { type Metrics } from '../metrics/metrics.js'
import { MergedRecentCounts, type RecentSnapshot } from '../metrics/recent-counts.js'
import { SummedMetrics, type MetricFamilies } from '../metrics/summed-metrics.js'
import { unavailableError } from '../api/error-response.js'
import { readPurge } from '../api/purge-request.js'
import { type PurgeResult } from '../http/admin-app.js'
import { type WorkerStatus, mergeStatuses } from '../http/status.js'
import { HostLeases } from '../peers/fetch-leases.js'
import { noResponse } from '../peers/ipc-calls.js'
import { memberOf } from '../peers/ipc-carrier.js'
import { noCarrier } from '../peers/peers.js'
import { type Records, HostRecords } from '../peers/records.js'
import { type Program, type WorkerHandle, WorkerPool, type WorkerPoolOptions } from '../peers/worker-pool.js'
import {
  type PrimaryMethods,
  type RecordPlace,
  type SentMessage,
  type ShutdownDeadlines,
  type StartMessage
} from '../peers/messages.js'
import { openRedis } from './components.js'
import { openEntryLog, type OwnedEntryLog, sharedPart } from './disk-backend.js'
import { type Serving } from './proxy-server.js'
import { type RedisConnection } from './redis.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'

const now = (): number => performance.now()
// Time limits of a worker for /metrics and /readyz, which leave out a worker that does not respond in time.
const metricsTimeoutMs = 1000
const statusTimeoutMs = 250
// Leaves time for the lower tiers, because a purge waits for them.
const changeTimeoutMs = 10_000
// Longer than a worker takes to follow a purge of everything.
const purgeLocallyTimeoutMs = 5000
// Leaves time for a worker that still starts, because it applies the change after its start.
const replaceTimeoutMs = 60_000
// Limits the list of ended spaces, which counts a reset once although several workers report it.
const maxEnded = 16

/** Opens what several processes on one shared listener need; this process serves the admin listener for all of them. */
export async function openPrimary (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  program: Program
): Promise<Serving> {
  return new PrimaryProcess(config, sandbox, log, metrics, program, await openEntryLog(config, log, metrics))
}

/** Worker pool, and the state that all workers share. */
class PrimaryProcess implements Serving {
  readonly sandbox: NamedUpstream | undefined
  readonly workerPool: WorkerPool
  // Upstreams out of service; workers that start later get them too.
  readonly cordons = new Set<string>()
  readonly entryLog: OwnedEntryLog | undefined
  readonly #metrics: Metrics
  #config: Config
  readonly #summedMetrics = new SummedMetrics(['varve_chain_resets_total'])
  readonly #recent: MergedRecentCounts
  readonly #buckets = new LocalBuckets(now)
  // One group per configuration: during a reload there are two.
  readonly #groups = new Set<WorkerGroup>()
  readonly #endedSpaces: string[] = []
  readonly #entryLogMembers = new Map<WorkerHandle, LogMember>()
  #isStopping = false

  constructor (
    config: Config,
    sandbox: NamedUpstream | undefined,
    log: Logger,
    metrics: Metrics,
    program: Program,
    entryLog: OwnedEntryLog | undefined
  ) {
    this.sandbox = sandbox
    this.entryLog = entryLog
    this.#metrics = metrics
    this.#recent = new MergedRecentCounts(() => performance.timeOrigin + now(), () => metrics.countsWithFaults)
    this.#config = config
    this.workerPool = new WorkerPool(program, {
      onLost: (pid, { code, signal }) => {
        metrics.process.workerLost()
        log.error({ lost: pid, code, signal }, 'worker exited: starting a replacement')
      },
      onReplacementFailed: reason => log.error({ reason }, 'worker could not be replaced: retrying'),
      onExited: worker => {
        this.#summedMetrics.remove(worker)
        this.#recent.remove(worker)
        this.#leaveLog(worker).catch(() => {})
      }
    })
  }

  get sharesMemory (): boolean {
    return this.entryLog?.settings.name === 'shared'
  }

  async listen (): Promise<string> {
    return await this.workerPool.listen(await this.#addGroup(this.#config))
  }

  async start (): Promise<void> {
    await this.workerPool.waitUntilReady()
  }

  async reload (next: Config): Promise<void> {
    const before = [...this.#groups]
    // Keeps the folder that this process opened at its start, also for workers of the next configuration.
    const { disk, memory } = this.#config.cache
    const ofStart = this.sharesMemory ? { disk, memory } : { disk }
    const config = { ...next, cache: { ...next.cache, ...ofStart } }
    // Replaces keys of clients in running workers: keys change often, so a change must not end workers.
    const areKeysOther = !isDeepStrictEqual(this.#config.clients, next.clients) &&
      isDeepStrictEqual({ ...this.#config, clients: next.clients }, config)
    const replaced = areKeysOther ? before.map(async group => await group.replaceClients(config)) : []
    if (areKeysOther && (await Promise.all(replaced)).every(Boolean)) {
      this.#config = config
      return
    }
    const group = await this.#addGroup(config)
    try {
      await this.workerPool.rollOut(group)
    } catch (error) {
      this.#closeGroups([group])
      throw error
    }
    this.#closeGroups(before)
    this.#config = group.config
  }

  async replaceUpstreams (next: Config): Promise<void> {
    for (const group of this.#groups) group.replaceUpstreams(next)
    this.#config = { ...this.#config, upstreams: next.upstreams }
  }

  async stop (deadlines: ShutdownDeadlines | undefined, closeMore: () => Promise<void>): Promise<void> {
    this.#isStopping = true
    await this.workerPool.stop(deadlines)
    await closeMore()
    this.#closeGroups([...this.#groups])
    await this.entryLog?.close()
  }

  async close (): Promise<void> {
    await this.stop({ drainMs: 0 }, async () => {})
  }

  async #addGroup (config: Config): Promise<WorkerGroup> {
    const group = new WorkerGroup(this, config, await openRedis(config, this.#metrics, noCarrier))
    this.#groups.add(group)
    return group
  }

  #closeGroups (groups: readonly WorkerGroup[]): void {
    for (const group of groups) {
      this.#groups.delete(group)
      group.close()
    }
  }

  async #leaveLog (worker: WorkerHandle): Promise<void> {
    const member = this.#entryLogMembers.get(worker)
    this.#entryLogMembers.delete(worker)
    if (member !== undefined) await this.entryLog?.keeper.leave(member)
  }

  /** Returns the methods that workers of every configuration share. */
  methodsFor (worker: WorkerHandle) {
    const member = memberOf(worker)
    this.#entryLogMembers.set(worker, member)
    return {
      // Without a log no worker calls these methods.
      ...this.entryLog?.keeperFor(member) as LogKeeper,
      take: (...charge: Parameters<PrimaryMethods['take']>) => this.#buckets.take(...charge),
      level: (...asked: Parameters<PrimaryMethods['level']>) => this.#buckets.level(...asked),
      refund: (...charge: Parameters<PrimaryMethods['refund']>) => this.#buckets.refund(...charge),
      purge: async (body: Uint8Array) => {
        this.#endFetches()
        // Purges again in the worker that found the difference, because another worker may have sent it the entry
        // meanwhile.
        await this.#purgeLocally(Buffer.from(body), undefined)
      },
      report: (metrics: unknown, recent: unknown) => {
        this.#recent.update(worker, recent as RecentSnapshot)
        this.#summedMetrics.update(worker, metrics as MetricFamilies)
      }
    }
  }

  /** Counts a reset once, although several workers report it. */
  onMessage (message: SentMessage): void {
    const space = message.kind === 'changed' ? message.resetFrom : undefined
    if (space === undefined || this.#endedSpaces.includes(space)) return
    this.#endedSpaces.push(space)
    if (this.#endedSpaces.length > maxEnded) this.#endedSpaces.shift()
    this.#metrics.chainReset()
  }

  async metricsText (): Promise<string> {
    await Promise.allSettled(
      this.#listening.map(async worker =>
        this.#summedMetrics.update(worker, await worker.calls.call(metricsTimeoutMs, 'metrics') as MetricFamilies)
      )
    )
    return await this.#summedMetrics.text(await this.#metrics.snapshot())
  }

  async status (): ReturnType<Serving['status']> {
    const listening = this.workerPool.current.filter(({ isListening }) => isListening)
    const results = await Promise.allSettled(listening.map(async worker => {
      const status = await worker.calls.call(statusTimeoutMs, 'status') as WorkerStatus
      this.#recent.update(worker, status.recent)
      return status
    }))
    const statuses = results.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
    return mergeStatuses(statuses, this.#config.workers, this.#isStopping, this.#recent.snapshot)
  }

  get #listening (): readonly WorkerHandle[] {
    return this.workerPool.all.filter(({ isListening }) => isListening)
  }

  /**
   * Purges in one worker first, which also purges the lower tiers; otherwise the other workers could read the entry
   * from there again. While Redis lacks the purge, every worker tries to deliver it, and reads nothing from Redis
   * before.
   */
  async purge (body: Buffer): Promise<PurgeResult> {
    return await this.#purgeIn(this.#listening, body, randomUUID())
  }

  async #purgeIn (workers: readonly WorkerHandle[], body: Buffer, id: string): Promise<PurgeResult> {
    this.#endFetches()
    const [first, ...others] = workers
    if (first === undefined) throw unavailableError('no worker is listening yet')
    const purging = first.calls.call(changeTimeoutMs, 'purge', body, id).catch((error: unknown) => {
      if (error !== noResponse || others.length === 0) throw error
    })
    const result = await purging as PurgeResult | undefined
    // Purges in the other workers even if one hangs.
    if (result === undefined) return { ...await this.#purgeIn(others, body, id), everywhere: false }
    const { stored, ...purged } = result
    const pending = purged.everywhere || readPurge(body).all ? [] : others
    await Promise.allSettled(pending.map(async worker => await worker.calls.call(changeTimeoutMs, 'purge', body, id)))
    const results = await this.#purgeLocally(body, first, purged.space)
    const everywhere = purged.everywhere && results.every(({ status }) => status === 'fulfilled')
    const isFound = results.some(result => result.status === 'fulfilled' && result.value)
    return { ...purged, everywhere, ...(stored === false && everywhere && !isFound && { stored }) }
  }

  /**
   * Purges in the memory of all other workers, also of an older configuration, because a purge names a read and no
   * upstream. A worker that starts has nothing in memory.
   */
  async #purgeLocally (
    body: Buffer,
    first: WorkerHandle | undefined,
    begun?: string
  ): Promise<ReadonlyArray<PromiseSettledResult<boolean>>> {
    const others = this.#listening.filter(worker => worker !== first)
    return await Promise.allSettled(
      others.map(async worker => await worker.calls.call(purgeLocallyTimeoutMs, 'purgeLocally', body, begun))
    )
  }

  #endFetches (): void {
    for (const group of this.#groups) group.endFetches()
  }

  async setCordoned (upstream: string, isCordoned: boolean): Promise<boolean> {
    if (!namedUpstreamsOf(this.#config, this.sandbox).some(({ name }) => name === upstream)) return false
    // Remembers the cordon first, so that a worker that starts meanwhile gets it.
    this.cordons[isCordoned ? 'add' : 'delete'](upstream)
    await Promise.all(
      this.#listening.map(async worker => await worker.calls.call(changeTimeoutMs, 'setCordoned', upstream, isCordoned))
    )
    return true
  }
}

/**
 * Workers of one configuration, each with its share of the limits. Each group has its own records, leases and Redis
 * connection.
 */
class WorkerGroup implements WorkerPoolOptions {
  readonly count: number
  config: Config
  // Name of this configuration among peers.
  readonly #name = randomUUID()
  readonly #primary: PrimaryProcess
  // Redis connection of all workers of the group, which other hosts see as one peer.
  readonly #redis: RedisConnection | undefined
  readonly #records: Readonly<Record<RecordPlace, Records | undefined>>
  readonly #leases = new Map<string, { readonly worker: WorkerHandle, readonly untilMs: number }>()
  readonly #fetches = new HostLeases<WorkerHandle>(now)
  #connecting: Promise<void> | undefined

  constructor (primary: PrimaryProcess, config: Config, redis: RedisConnection | undefined) {
    this.#primary = primary
    this.count = config.workers
    this.config = config
    this.#redis = redis
    this.#records = { host: new HostRecords(), log: primary.entryLog?.records, redis: redis?.carrier.redisRecords }
    redis?.carrier.subscribe(message => primary.workerPool.broadcast({ ...message, configuration: this.#name }))
  }

  /** Replaces the upstreams of running workers, and of workers that start later. */
  replaceUpstreams ({ upstreams }: Config): void {
    this.config = { ...this.config, upstreams }
    for (const worker of this.#primary.workerPool.all) {
      if (worker.hasSpec(this)) {
        worker.calls.call(replaceTimeoutMs, 'replaceUpstreams', this.#workerConfig()).catch(() => {})
      }
    }
  }

  /** Replaces the keys of clients in running workers, and in those that start later; false if one did not confirm. */
  async replaceClients ({ clients }: Config): Promise<boolean> {
    this.config = { ...this.config, clients }
    const replaced = this.#primary.workerPool.all.filter(worker => worker.hasSpec(this)).map(async worker =>
      await worker.calls.call(replaceTimeoutMs, 'replaceClients', this.#workerConfig())
    )
    return (await Promise.allSettled(replaced)).every(({ status }) => status === 'fulfilled')
  }

  startMessage (): StartMessage {
    const { sandbox, cordons, entryLog } = this.#primary
    return {
      kind: 'start',
      configuration: this.#name,
      config: this.#workerConfig(),
      sandbox,
      cordoned: [...cordons],
      entryLog: entryLog?.settings
    }
  }

  methodsFor (worker: WorkerHandle): PrimaryMethods {
    return {
      ...this.#primary.methodsFor(worker),
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
      renewLease: (...lease) => this.#fetches.renew(...lease),
      endLease: (...lease) => this.#fetches.end(...lease)
    }
  }

  /** Passes a message on, to the other workers and to the other hosts. */
  onMessage (message: SentMessage, from: WorkerHandle): void {
    if (message.kind === 'fetched' && message.token !== undefined) {
      for (const worker of this.#fetches.takeWaiters(message.lease, message.token)) worker.send(message)
      return
    }
    this.#primary.workerPool.broadcast(message, from)
    this.#redis?.carrier.publish(message)
    this.#primary.onMessage(message)
  }

  /** Ends the waits for fetches in flight, because a purge begins and may cover what they fetch. */
  endFetches (): void {
    for (const [lease, waiters] of this.#fetches.endAll()) {
      for (const worker of waiters) worker.send({ kind: 'fetched', lease, isStored: undefined })
    }
  }

  close (): void {
    this.#redis?.carrier.stop()
    this.#redis?.link.stop()
  }

  #workerConfig (): Config {
    return workerConfigOf(this.config, this.#primary.sharesMemory)
  }

  async #recordsOf (place: RecordPlace): Promise<Records | undefined> {
    if (place === 'redis') await (this.#connecting ??= this.#connect())
    return this.#records[place]
  }

  /** Connects to Redis when the first worker needs it, which listens by then. */
  async #connect (): Promise<void> {
    const notify = (isRedisUp: boolean) => (): void =>
      this.#primary.workerPool.broadcast({ kind: 'changed', configuration: this.#name, isRedisUp })
    this.#redis?.carrier.start()
    await this.#redis?.link.start({ onUp: notify(true), onDown: notify(false) })
  }
}

/** Returns the configuration of one worker, with its share of each limit of the process group. */
export function workerConfigOf (config: Config, sharesMemory = false): Config {
  const { workers, upstreams, cache, limits } = config
  const ownMb = cache.memory.maxMb * (sharesMemory ? 1 - sharedPart : 1)
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
    cache: { ...cache, memory: { maxMb: Math.floor(ownMb * bytesPerMb / workers) / bytesPerMb } }
  }
}

import { randomUUID } from 'node:crypto'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { type LogMember } from '../cache/disk-keeper.js'
import { LocalBuckets } from '../clients/token-buckets.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { primaryRestartPaths, reloadedKeys, type ReloadedKeys } from '../config/restart-keys.js'
import { type Metrics } from '../metrics/metrics.js'
import { MergedRecentCounts, type RecentSnapshot } from '../metrics/recent-counts.js'
import { SummedMetrics, type MetricFamilies } from '../metrics/summed-metrics.js'
import { unavailableError } from '../api/error-response.js'
import { readPurge } from '../api/purge-request.js'
import { type PurgeResult } from '../http/admin-app.js'
import { type WorkerStatus, mergeStatuses } from '../http/status.js'
import { noResponse } from '../peers/ipc-calls.js'
import { logMethodsFor, memberOf } from '../peers/ipc-log.js'
import { noCarrier } from '../peers/peers.js'
import { WorkerPool, type Program } from '../peers/worker-pool.js'
import { type SentMessage, type ShutdownDeadlines } from '../peers/messages.js'
import { type WorkerHandle } from '../peers/worker-handle.js'
import { buildAdmin, type Reload } from './admin-listener.js'
import { openRedis } from './host.js'
import { listenOn } from './listen.js'
import { OwnedLog } from './owned-log.js'
import { drainMsOf } from './stop.js'
import { type Varve } from './single-process.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'
import { type SharedMethods, WorkerGroup } from './worker-group.js'

const now = (): number => performance.now()
// Bounds /metrics and /readyz, which leave out a worker that does not respond in time.
const metricsTimeoutMs = 1000
const statusTimeoutMs = 250
// A purge waits for the lower tiers.
const changeTimeoutMs = 10_000
// Longer than a worker takes to follow a purge of everything.
const purgeLocallyTimeoutMs = 5000
// Spaces that a reset has ended; several workers report the same one.
const maxEnded = 16

/** Serves with several processes on one shared listener; this process serves the admin listener for all of them. */
export async function startMultiProcess (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  program: Program,
  metrics: Metrics,
  reload: Reload
): Promise<Varve> {
  const primary = new PrimaryProcess(config, sandbox, log, program, metrics, reload)
  try {
    const { url, adminUrl } = await primary.start(config)
    return {
      url,
      adminUrl,
      status: async () => await primary.status(),
      purge: async body => await primary.purge(body),
      reload: async next => await primary.reload(next),
      replaceUpstreams: async next => await primary.replaceUpstreams(next),
      stop: async deadlines => await primary.stop(deadlines)
    }
  } catch (error) {
    await primary.stop({ drainMs: 0 })
    throw error
  }
}

/** Admin listener, worker pool, and the state that all workers share. */
class PrimaryProcess {
  readonly #sandbox: NamedUpstream | undefined
  readonly #log: Logger
  readonly #metrics: Metrics
  #config: Config
  readonly #started: Config
  readonly #summedMetrics = new SummedMetrics(['varve_chain_resets_total'])
  readonly #recent: MergedRecentCounts
  readonly #buckets = new LocalBuckets(now)
  // One per configuration: a reload has two.
  readonly #groups = new Set<WorkerGroup>()
  readonly #workerPool: WorkerPool
  readonly #admin: FastifyInstance
  // Workers that start later get these too.
  readonly #cordons = new Set<string>()
  readonly #endedSpaces: string[] = []
  readonly #logMembers = new Map<WorkerHandle, LogMember>()
  #diskLog: OwnedLog | undefined
  #isStopping = false

  constructor (
    config: Config,
    sandbox: NamedUpstream | undefined,
    log: Logger,
    program: Program,
    metrics: Metrics,
    reload: Reload
  ) {
    this.#sandbox = sandbox
    this.#log = log
    this.#metrics = metrics
    this.#recent = new MergedRecentCounts(() => performance.timeOrigin + now(), () => metrics.countsWithFaults)
    this.#config = config
    this.#started = config
    this.#workerPool = new WorkerPool(program, {
      onLost: (pid, { code, signal }) => {
        metrics.process.workerLost()
        log.error({ lost: pid, code, signal }, 'worker exited: starting a replacement')
      },
      onReplacementFailed: reason => {
        log.error({ reason }, 'worker could not be replaced: retrying')
      },
      onExited: worker => {
        this.#summedMetrics.remove(worker)
        this.#recent.remove(worker)
        this.#leaveLog(worker).catch(() => {})
      }
    })
    this.#admin = buildAdmin({ log, metrics, config: () => this.#config, now }, {
      metricsText: async () => await this.#renderMetrics(),
      status: async () => await this.status(),
      setCordoned: async (upstream, isCordoned) => await this.#setCordoned(upstream, isCordoned),
      purge: async body => await this.purge(body),
      reload
    })
  }

  /** Listens, then starts the workers; resolves when each has polled its upstreams. */
  async start (config: Config): Promise<Pick<Varve, 'url' | 'adminUrl'>> {
    this.#diskLog = await OwnedLog.open(config, this.#log, this.#metrics)
    // Listens before any worker starts, because a worker contacts upstreams and Redis at once.
    const adminUrl = await listenOn(this.#admin, config.admin.listen, 'admin.listen')
    const url = await this.#workerPool.listen(await this.#addGroup(config))
    this.#log.info({ url, adminUrl, workers: config.workers }, 'listening')
    await this.#workerPool.waitUntilReady()
    return { url, adminUrl }
  }

  async reload (next: Config): Promise<ReloadedKeys> {
    const before = [...this.#groups]
    // This process has opened the folder for all workers, those of the next configuration too.
    const { disk } = this.#started.cache
    const group = await this.#addGroup({ ...next, cache: { ...next.cache, disk } })
    try {
      await this.#workerPool.rollOut(group)
    } catch (error) {
      await this.#closeGroups([group])
      throw error
    }
    await this.#closeGroups(before)
    const keys = reloadedKeys(this.#started, this.#config, next, primaryRestartPaths)
    this.#config = next
    this.#log.level = next.log.level
    return keys
  }

  async status (): ReturnType<Varve['status']> {
    return mergeStatuses(
      await this.#fetchStatuses(),
      this.#config.workers,
      this.#isStopping,
      this.#recent.snapshot
    )
  }

  async replaceUpstreams (next: Config): Promise<void> {
    for (const group of this.#groups) group.replaceUpstreams(next)
    this.#config = next
  }

  async stop (deadlines?: ShutdownDeadlines): Promise<void> {
    this.#isStopping = true
    await this.#workerPool.stop({ drainMs: drainMsOf(this.#config), ...deadlines })
    await this.#admin.close()
    await this.#closeGroups([...this.#groups])
    await this.#diskLog?.close()
  }

  async #addGroup (config: Config): Promise<WorkerGroup> {
    const group = new WorkerGroup({
      name: randomUUID(),
      config,
      sandbox: this.#sandbox,
      workerPool: this.#workerPool,
      now,
      redis: await openRedis(config, this.#metrics, now, noCarrier),
      cordoned: () => [...this.#cordons],
      log: this.#diskLog?.settings,
      sharedMethodsFor: worker => this.#methodsFor(worker),
      onMessage: message => {
        this.#onMessage(message)
      }
    })
    this.#groups.add(group)
    return group
  }

  async #closeGroups (groups: readonly WorkerGroup[]): Promise<void> {
    await Promise.all(groups.map(async group => {
      this.#groups.delete(group)
      await group.close()
    }))
  }

  async #leaveLog (worker: WorkerHandle): Promise<void> {
    const member = this.#logMembers.get(worker)
    this.#logMembers.delete(worker)
    if (member !== undefined) await this.#diskLog?.keeper.leave(member)
  }

  #methodsFor (worker: WorkerHandle): SharedMethods {
    const member = memberOf(worker)
    this.#logMembers.set(worker, member)
    return {
      ...logMethodsFor(member, this.#diskLog),
      take: (clientId, allowance, count) => this.#buckets.take(clientId, allowance, count),
      refund: (clientId, allowance) => {
        this.#buckets.refund(clientId, allowance)
      },
      purge: async body => {
        this.#endFetches()
        // Again in the worker that found it: another one may have sent it an entry before.
        await this.#purgeLocally(Buffer.from(body), undefined)
      },
      report: (metrics, recent) => {
        this.#recent.update(worker, recent as RecentSnapshot)
        this.#summedMetrics.update(worker, metrics as MetricFamilies)
      }
    }
  }

  #onMessage (message: SentMessage): void {
    switch (message.kind) {
      case 'changed':
        return this.#countReset(message.resetFrom)
      case 'head':
      case 'fetched':
      case 'tail':
      case 'digests':
      case 'demand':
      case 'polled':
    }
  }

  /** Counts a reset that several workers report once. */
  #countReset (space: string | undefined): void {
    if (space === undefined || this.#endedSpaces.includes(space)) return
    this.#endedSpaces.push(space)
    if (this.#endedSpaces.length > maxEnded) this.#endedSpaces.shift()
    this.#metrics.chainReset()
  }

  async #renderMetrics (): Promise<string> {
    await Promise.allSettled(this.#listening.map(async worker => {
      this.#summedMetrics.update(worker, await worker.calls.call(metricsTimeoutMs, 'metrics') as MetricFamilies)
    }))
    return await this.#summedMetrics.text(await this.#metrics.snapshot())
  }

  async #fetchStatuses (): Promise<WorkerStatus[]> {
    const listening = this.#workerPool.current.filter(({ isListening }) => isListening)
    const results = await Promise.allSettled(listening.map(async worker => {
      const status = await worker.calls.call(statusTimeoutMs, 'status') as WorkerStatus
      this.#recent.update(worker, status.recent)
      return status
    }))
    return results.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
  }

  get #listening (): readonly WorkerHandle[] {
    return this.#workerPool.all.filter(({ isListening }) => isListening)
  }

  /**
   * Purges in one worker first, which also purges the lower tiers; otherwise the others could read the entry from one
   * again. What Redis does not have yet, every worker delivers, and reads nothing from Redis before.
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
    // A worker that hangs keeps the purge from no other.
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

  async #setCordoned (upstream: string, isCordoned: boolean): Promise<boolean> {
    if (!namedUpstreamsOf(this.#config, this.#sandbox).some(({ name }) => name === upstream)) return false
    // Remembers first, so that a worker that starts meanwhile gets it.
    this.#cordons[isCordoned ? 'add' : 'delete'](upstream)
    await Promise.all(
      this.#listening.map(async worker => await worker.calls.call(changeTimeoutMs, 'setCordoned', upstream, isCordoned))
    )
    return true
  }
}

import { isDeepStrictEqual } from 'node:util'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/token-buckets.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { keysNeedingRestart } from '../config/restart-keys.js'
import { maskSecrets } from '../config/secrets.js'
import { type Metrics } from '../metrics/metrics.js'
import { MergedRecentCounts, type RecentSnapshot } from '../metrics/recent-counts.js'
import { SummedMetrics, type MetricFamilies } from '../metrics/summed-metrics.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { readPurge } from '../api/purge-request.js'
import { adminApp, adminFullMessage, type PurgeResult } from '../http/admin-app.js'
import { reportUnexpectedError } from '../http/send-response.js'
import { mergeReadiness, type WorkerStatus, mergeStatuses } from '../http/status.js'
import { WorkerPool, type Program } from '../workers/worker-pool.js'
import { type ChainResetCount, type ShutdownDeadlines, type WorkerQueryResult } from '../workers/messages.js'
import { type WorkerHandle } from '../workers/worker-handle.js'
import { adminLog } from './admin-log.js'
import { CurrentConfig } from './current-config.js'
import { listenOn } from './listen.js'
import { type Varve } from './single-process.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'
import { type CrossConfigMessage, WorkerGroup } from './worker-group.js'
import { openSharedFolder } from './lazy-parts.js'
import { type PrimaryDiskFolder } from './primary-disk-folder.js'

const now = (): number => performance.now()

/** Serves with several processes on one shared listener; this process serves the admin listener for all of them. */
export async function startMultiProcess (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  program: Program,
  metrics: Metrics
): Promise<Varve> {
  const primary = new PrimaryProcess(config, sandbox, log, program, metrics)
  try {
    const addresses = await primary.start(config)
    return {
      ...addresses,
      reload: async next => await primary.reload(next),
      replaceUpstreams: async next => {
        primary.replaceUpstreams(next)
      },
      stop: async deadlines => {
        await primary.stop(deadlines)
      }
    }
  } catch (error) {
    await primary.close()
    throw error
  }
}

/** Admin listener, worker pool, and the state that all workers share. */
class PrimaryProcess {
  readonly #sandbox: NamedUpstream | undefined
  readonly #log: Logger
  readonly #metrics: Metrics
  readonly #current: CurrentConfig
  readonly #disk: Config['cache']['disk']
  readonly #summedMetrics = new SummedMetrics(['varve_chain_resets_total'])
  readonly #recent: MergedRecentCounts
  readonly #buckets = new LocalBuckets(now)
  // One per configuration: a reload has two.
  readonly #groups = new Set<WorkerGroup>()
  readonly #workerPool: WorkerPool
  readonly #admin: FastifyInstance
  // Workers that start later get these too.
  readonly #cordons = new Set<string>()
  #resetCount: ChainResetCount = 0
  #folder: PrimaryDiskFolder | undefined
  #isStopping = false

  constructor (config: Config, sandbox: NamedUpstream | undefined, log: Logger, program: Program, metrics: Metrics) {
    this.#sandbox = sandbox
    this.#log = log
    this.#metrics = metrics
    this.#recent = new MergedRecentCounts(() => performance.timeOrigin + now(), () => metrics.countsWithFaults)
    this.#current = new CurrentConfig(config)
    this.#disk = config.cache.disk
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
        this.#folder?.removeTemporaryFilesOf(worker.pid).catch(() => {})
      }
    })
    this.#admin = this.#buildAdmin()
  }

  /** Listens, then starts the workers; resolves when each has polled its upstreams. */
  async start (config: Config): Promise<Pick<Varve, 'url' | 'adminUrl'>> {
    this.#folder = await openSharedFolder(config, this.#log, this.#metrics, message => {
      for (const worker of this.#workerPool.all) worker.send(message)
    })
    // Listens before any worker starts, because a worker contacts upstreams and Redis at once.
    const adminUrl = await listenOn(this.#admin, config.admin.listen, 'admin.listen')
    const url = await this.#workerPool.listen(this.#addGroup(config))
    this.#log.info({ url, adminUrl, workers: config.workers }, 'listening')
    await this.#workerPool.waitUntilReady()
    return { url, adminUrl }
  }

  async reload (next: Config): Promise<readonly string[]> {
    const before = [...this.#groups]
    // This process has opened the folder for all workers, those of the next configuration too.
    const disk = this.#disk
    const group = this.#addGroup({ ...next, cache: { ...next.cache, disk } })
    try {
      await this.#workerPool.rollOut(group)
    } catch (error) {
      await this.#closeGroups([group])
      throw error
    }
    await this.#closeGroups(before)
    const keys = [
      ...keysNeedingRestart(this.#current.value, next).filter(key => key === 'admin.listen'),
      ...(isDeepStrictEqual(next.cache.disk, disk) ? [] : ['cache.disk'])
    ]
    this.#current.replace(next)
    this.#log.level = next.log.level
    return keys
  }

  replaceUpstreams (next: Config): void {
    for (const group of this.#groups) group.replaceUpstreams(next)
    this.#current.replace(next)
  }

  async stop (deadlines?: ShutdownDeadlines): Promise<void> {
    this.#isStopping = true
    await this.close(deadlines)
  }

  async close (deadlines?: ShutdownDeadlines): Promise<void> {
    await this.#workerPool.stop(deadlines)
    await this.#admin.close()
    await this.#closeGroups([...this.#groups])
    await this.#folder?.stop()
  }

  #buildAdmin (): FastifyInstance {
    const current = this.#current
    return adminApp({
      metrics: { contentType: this.#metrics.contentType, text: async () => await this.#renderMetrics() },
      readiness: async () =>
        mergeReadiness(await this.#fetchStatuses(), current.value.workers, this.#isStopping, this.#recent.snapshot),
      status: async () =>
        mergeStatuses(await this.#fetchStatuses(), current.value.workers, this.#isStopping, this.#recent.snapshot),
      config: () => maskSecrets(current.value),
      onUnexpectedError: error => {
        reportUnexpectedError({ log: this.#log, metrics: this.#metrics }, error)
      },
      hosts: () => current.value.admin.hosts,
      onFull: (turnedAway, limit) => {
        this.#log.warn({ turnedAway, limit }, adminFullMessage)
      },
      setCordoned: async (upstream, isCordoned) => await this.#setCordoned(upstream, isCordoned),
      purgeRoute: {
        token: () => current.value.admin.token,
        log: adminLog(this.#log, now),
        purge: async body => await this.#purgeAll(body)
      }
    })
  }

  #addGroup (config: Config): WorkerGroup {
    const group = new WorkerGroup(config, this.#sandbox, {
      workerPool: this.#workerPool,
      metrics: this.#metrics,
      now,
      resetCount: () => this.#resetCount,
      cordoned: () => [...this.#cordons],
      folder: () => this.#folder?.state,
      onMessage: (message, from) => {
        this.#onWorkerMessage(message, from)
      }
    })
    this.#groups.add(group)
    return group
  }

  async #closeGroups (groups: readonly WorkerGroup[]): Promise<void> {
    await Promise.all(groups.map(async group => {
      this.#groups.delete(group)
      await group.poller.close()
    }))
  }

  #onWorkerMessage (message: CrossConfigMessage, from: WorkerHandle): void {
    switch (message.kind) {
      case 'take':
        return from.send({
          kind: 'take_result',
          id: message.id,
          waitMs: this.#buckets.take(message.clientId, message.allowance)
        })
      case 'refund':
        return this.#buckets.refund(message.clientId, message.allowance)
      case 'disk_change':
        return this.#folder?.change(message, answer => {
          from.send(answer)
        })
      case 'disk_used':
        return this.#folder?.use(message)
      case 'invalidated':
        this.#purgeLocally(Buffer.from(message.purge), from).catch(() => {})
        return
      case 'final_report':
        this.#recent.update(from, message.recent as RecentSnapshot)
        return this.#summedMetrics.update(from, message.metrics as MetricFamilies)
      case 'chain_reset':
        // Each worker reports the same reset; count it once.
        if (message.resetCount > this.#resetCount) this.#metrics.chainReset()
        this.#resetCount = Math.max(this.#resetCount, message.resetCount)
    }
  }

  async #renderMetrics (): Promise<string> {
    await Promise.all(this.#workerPool.all.map(async worker => {
      const result = await worker.query({ kind: 'metrics' })
      if ('value' in result) this.#summedMetrics.update(worker, result.value as MetricFamilies)
    }))
    return await this.#summedMetrics.text(await this.#metrics.snapshot())
  }

  async #fetchStatuses (): Promise<WorkerStatus[]> {
    const results = await Promise.all(this.#workerPool.current.map(async worker => {
      const result = await worker.query({ kind: 'status' })
      if (!('value' in result)) return []
      const status = result.value as WorkerStatus
      this.#recent.update(worker, status.recent)
      return [status]
    }))
    return results.flat()
  }

  /**
   * Purges in one worker first, which also purges the lower tiers; otherwise the others could read the entry from one
   * again.
   */
  async #purgeAll (body: Buffer): Promise<PurgeResult> {
    const first = this.#workerPool.all.find(({ isListening }) => isListening)
    if (first === undefined) throw unavailableError('no worker is listening yet')
    const purged = queryValueOf(await first.query({ kind: 'purge', body })) as PurgeResult
    const results = await this.#purgeLocally(body, first)
    const { stored, ...report } = purged
    const everywhere = purged.everywhere && results.every(result => 'value' in result)
    const isFound = results.some(result => 'value' in result && result.value === true)
    return { ...report, everywhere, ...(stored === false && everywhere && !isFound && { stored }) }
  }

  /** Purges in all other workers, also of an older configuration, because a purge names a read and no upstream. */
  async #purgeLocally (body: Buffer, first: WorkerHandle): Promise<WorkerQueryResult[]> {
    const purgeIn = async (workers: readonly WorkerHandle[]): Promise<WorkerQueryResult[]> =>
      await Promise.all(
        workers.filter(({ isListening }) => isListening).map(async worker =>
          await worker.query({ kind: 'purge_locally', body })
        )
      )
    const once = await purgeIn(this.#workerPool.all.filter(worker => worker !== first))
    // A worker may have read from the shared disk what another one wrote before it was purged; a new space has nothing.
    const isOnce = this.#folder === undefined || readPurge(body).all
    const again = isOnce ? [] : await purgeIn(this.#workerPool.all)
    return [...once, ...again]
  }

  async #setCordoned (upstream: string, isCordoned: boolean): Promise<boolean> {
    if (!namedUpstreamsOf(this.#current.value, this.#sandbox).some(({ name }) => name === upstream)) return false
    // Remembers first, so that a worker that starts meanwhile gets it.
    this.#cordons[isCordoned ? 'add' : 'delete'](upstream)
    const workers = this.#workerPool.all.filter(({ isListening }) => isListening)
    const results = await Promise.all(
      workers.map(async worker => await worker.query({ kind: 'cordon', upstream, isCordoned }))
    )
    for (const result of results) queryValueOf(result)
    return true
  }
}

function queryValueOf (result: WorkerQueryResult): unknown {
  if ('value' in result) return result.value
  if ('error' in result) throw unavailableError(result.error)
  const { status, code, message, rawHeaders } = result.errorResponse
  throw new ErrorResponse(status, code, message, rawHeaders)
}

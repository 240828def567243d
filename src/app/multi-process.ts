import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/buckets.js'
import { type Config } from '../config/schema.js'
import { pollBoundsOf } from '../config/upstream-shares.js'
import { keysNeedingRestart } from '../config/restart-keys.js'
import { workerConfigOf } from '../config/worker-config.js'
import { Metrics } from '../metrics/metrics.js'
import { MergedRecentCounts, type RecentSnapshot } from '../metrics/recent.js'
import { SummedMetrics, type MetricSnapshots } from '../metrics/summed-metrics.js'
import { UpstreamClient } from '../upstreams/upstream-client.js'
import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { adminApp, adminFullMessage } from '../http/admin-app.js'
import { type PurgeResult } from '../http/purge-route.js'
import { reportUnexpectedError } from '../http/send-response.js'
import { mergeReadiness, type WorkerStatus, mergeStatuses } from '../http/merged-status.js'
import { WorkerPool, type WorkerPoolOptions, type Program } from '../workers/worker-pool.js'
import { type ChainResetCount, type ShutdownDeadlines, type WorkerQueryResult } from '../workers/messages.js'
import { SharedPoller } from '../workers/shared-poller.js'
import { type WorkerMessage, type WorkerProcess } from '../workers/worker-process.js'
import { namedUpstreamsOf } from './upstream-lifecycle.js'
import { listenOn } from './proxy-server.js'
import { type Varve } from './single-process.js'

// Responses to polls are small.
const maxPollBytes = 65_536

/** Serves with several processes on one shared listener; this process serves the admin listener for all of them. */
export async function startMultiProcess (
  config: Config,
  sandboxUrl: string | undefined,
  log: Logger,
  program: Program
): Promise<Varve> {
  const metrics = new Metrics()
  const summedMetrics = new SummedMetrics(['varve_chain_resets_total'])
  const now = (): number => performance.now()
  const recent = new MergedRecentCounts(() => performance.timeOrigin + now())
  const buckets = new LocalBuckets(now)
  const pollers = new Set<SharedPoller>()
  let resetCount: ChainResetCount = 0
  let current = config
  let isStopping = false
  const workerPool = new WorkerPool(program, workerSpecOf(config), {
    onLost: (pid, { code, signal }) => {
      metrics.process.workerLost()
      log.error({ lost: pid, code, signal }, 'worker exited: starting a replacement')
    },
    onReplacementFailed: reason => {
      log.error({ reason }, 'worker could not be replaced: retrying')
    },
    onExited: worker => {
      summedMetrics.remove(worker)
      recent.remove(worker)
    }
  })
  const admin = adminApp({
    metrics: { contentType: metrics.contentType, text: renderMetrics },
    readiness: async () => mergeReadiness(await fetchStatuses(), current.workers, isStopping),
    status: async () => mergeStatuses(await fetchStatuses(), current.workers, isStopping, recent.snapshot),
    onUnexpectedError: error => {
      reportUnexpectedError({ log, metrics }, error)
    },
    hosts: () => current.admin.hosts,
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, adminFullMessage)
    },
    purgeRoute: { token: () => current.admin.token, purge: purgeAll }
  })
  const close = async (deadlines?: ShutdownDeadlines): Promise<void> => {
    await workerPool.stop(deadlines)
    await admin.close()
    await closeAll([...pollers])
  }
  try {
    // Listens before any worker starts, because a worker contacts upstreams and Redis at once.
    const adminUrl = await listenOn(admin, config.admin.listen, 'admin.listen')
    const url = await workerPool.listen()
    log.info({ url, adminUrl, workers: config.workers }, 'listening')
    await workerPool.waitUntilReady()
    return { url, adminUrl, metrics, reload, stop }
  } catch (error) {
    await close()
    throw error
  }

  /** Builds the spec of a configuration's workers, each with its share of the limits. */
  function workerSpecOf (of: Config): WorkerPoolOptions {
    const clients = namedUpstreamsOf(of, sandboxUrl).map(upstream =>
      new UpstreamClient(
        { ...upstream, ...pollBoundsOf(upstream, of.head.pollMs), maxBufferedBytes: maxPollBytes, now },
        metrics
      )
    )
    const poller = new SharedPoller(clients, now, (upstream, target, result) => {
      workerPool.broadcast(spec, { kind: 'poll_result', upstream, target, result })
    })
    const spec: WorkerPoolOptions = {
      count: of.workers,
      startMessage: () => ({ kind: 'start', config: workerConfigOf(of), sandboxUrl, resetCount }),
      onMessage: (message, from) => {
        onWorkerMessage(message, from, spec, poller)
      }
    }
    pollers.add(poller)
    return spec
  }

  function onWorkerMessage (
    message: WorkerMessage,
    from: WorkerProcess,
    spec: WorkerPoolOptions,
    poller: SharedPoller
  ): void {
    switch (message.kind) {
      case 'poll':
        return poller.poll(message.upstream, message.target, message.timeoutMs)
      case 'take':
        return from.send({
          kind: 'take_result',
          id: message.id,
          waitMs: buckets.take(message.clientId, message.allowance)
        })
      case 'refund':
        return buckets.refund(message.clientId, message.allowance)
      case 'invalidated':
        return purgeLocallyExcept(Buffer.from(message.purge), from)
      case 'final_report':
        recent.update(from, message.recent as RecentSnapshot)
        return summedMetrics.update(from, message.metrics as MetricSnapshots)
      case 'chain_reset':
        // Each worker reports the same reset; count it once.
        if (message.resetCount > resetCount) metrics.chainReset()
        resetCount = Math.max(resetCount, message.resetCount)
        return workerPool.broadcast(spec, message, from)
      case 'head':
        workerPool.broadcast(spec, message, from)
    }
  }

  async function reload (next: Config): Promise<readonly string[]> {
    const before = [...pollers]
    try {
      await workerPool.rollOut(workerSpecOf(next))
    } catch (error) {
      await closeAll([...pollers].filter(poller => !before.includes(poller)))
      throw error
    }
    await closeAll(before)
    const keys = keysNeedingRestart(current, next).filter(key => key === 'admin.listen')
    current = next
    log.level = next.log.level
    return keys
  }

  async function closeAll (closing: readonly SharedPoller[]): Promise<void> {
    await Promise.all(closing.map(async poller => {
      pollers.delete(poller)
      await poller.close()
    }))
  }

  async function stop (deadlines?: ShutdownDeadlines): Promise<void> {
    isStopping = true
    await close(deadlines)
  }

  async function renderMetrics (): Promise<string> {
    await Promise.all(workerPool.all.map(async worker => {
      const result = await worker.query({ kind: 'metrics' })
      if ('value' in result) summedMetrics.update(worker, result.value as MetricSnapshots)
    }))
    return await summedMetrics.text(await metrics.snapshot())
  }

  async function fetchStatuses (): Promise<WorkerStatus[]> {
    const results = await Promise.all(workerPool.current.map(async worker => {
      const result = await worker.query({ kind: 'status' })
      if (!('value' in result)) return []
      const status = result.value as WorkerStatus
      recent.update(worker, status.recent)
      return [status]
    }))
    return results.flat()
  }

  /** Purges in all other workers, also of an older configuration, because a purge names a read and no upstream. */
  function purgeLocallyExcept (body: Buffer, from: WorkerProcess): void {
    for (const worker of workerPool.all) {
      if (worker !== from && worker.isListening) worker.query({ kind: 'purge_locally', body }).catch(() => {})
    }
  }

  /**
   * Purges in one worker first, which also purges Redis; otherwise the others could read the entry from Redis again.
   */
  async function purgeAll (body: Buffer): Promise<PurgeResult> {
    const [first, ...others] = workerPool.all.filter(({ isListening }) => isListening)
    if (first === undefined) throw unavailableError('no worker is listening yet')
    const purged = queryValueOf(await first.query({ kind: 'purge', body })) as PurgeResult
    const results = await Promise.all(others.map(async worker => await worker.query({ kind: 'purge_locally', body })))
    return { ...purged, everywhere: purged.everywhere && results.every(result => 'value' in result) }
  }
}

function queryValueOf (result: WorkerQueryResult): unknown {
  if ('value' in result) return result.value
  if ('error' in result) throw unavailableError(result.error)
  const { status, code, message, rawHeaders } = result.errorResponse
  throw new ErrorResponse(status, code, message, rawHeaders)
}

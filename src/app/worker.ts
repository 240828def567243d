import cluster from 'node:cluster'
import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/buckets.js'
import { type Metrics } from '../metrics/metrics.js'
import { ErrorResponse } from '../api/error-response.js'
import { statusOf } from '../http/status.js'
import { indexTarget } from '../api/targets.js'
import {
  type WorkerQuery,
  type ChainResetCount,
  type ShutdownDeadlines,
  type ToPrimary,
  type WorkerQueryResult,
  type ToWorker
} from '../workers/messages.js'
import { RemoteBuckets } from '../workers/remote-buckets.js'
import { RemoteProbes } from '../workers/remote-probes.js'
import { watchDescriptors } from './descriptors.js'
import { installFaultHandlers } from './faults.js'
import { type ExitCode, exitCodes, type Io, UsageError } from './io.js'
import { openLog } from './log.js'
import { type ProxyServer, buildProxyServer } from './proxy-server.js'

type StartMessage = Extract<ToWorker, { kind: 'start' }>

const aliveEveryMs = 1000

/** Runs one worker process; the primary process starts and stops it. */
export async function runWorker (io: Io): Promise<ExitCode> {
  const { worker } = cluster
  if (worker === undefined) throw new UsageError('unknown command worker')
  // Terminals and supervisors signal the whole process group, so a worker waits for the primary's `stop`.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) io.onSignal(signal, () => {})
  const send: SendToPrimary = (message, onSent = () => {}) => {
    if (worker.isConnected()) worker.send(message, undefined, onSent)
    else onSent()
  }
  const channel = new PrimaryChannel(send)
  const timer = setInterval(() => {
    send({ kind: 'alive' })
  }, aliveEveryMs).unref()
  worker.on('message', (message: ToWorker) => {
    channel.onMessage(message)
  })
  send({ kind: 'up' })
  const start = await channel.started
  const { log: unnamedLog, masker, lostLines } = openLog(io, start.config)
  const log = unnamedLog.child({ worker: worker.id })
  let metrics: Metrics | undefined
  const unwatch = watchDescriptors(log, () => {
    metrics?.process.descriptorsExhausted()
  })
  const serving = channel.serve(start, log, workerMetrics => {
    metrics = workerMetrics
    workerMetrics.process.countLostLines(lostLines)
  })
  installFaultHandlers(io, log, masker, {
    metrics: () => metrics,
    stop: async deadlines => {
      channel.onMessage({ kind: 'stop', deadlines })
      await serving
    }
  })
  try {
    await serving
    return exitCodes.ok
  } catch (error) {
    send({ kind: 'failed', message: masker.mask((error as Error).message) })
    return exitCodes.failed
  } finally {
    unwatch()
    clearInterval(timer)
    worker.disconnect()
  }
}

/** Sends a message to the primary process; `onSent` also runs after a disconnect. */
export type SendToPrimary = (message: ToPrimary, onSent?: () => void) => void

/** Message channel between a worker and the primary process. */
export class PrimaryChannel {
  readonly started: Promise<StartMessage>
  readonly #send: SendToPrimary
  readonly #probes: RemoteProbes
  readonly #buckets: RemoteBuckets
  readonly #stopped: Promise<ShutdownDeadlines | undefined>
  #resolveStarted: (begin: StartMessage) => void = () => {}
  #resolveStopped: (deadlines: ShutdownDeadlines | undefined) => void = () => {}
  #server: ProxyServer | undefined
  #resetCount: ChainResetCount = 0

  constructor (send: SendToPrimary) {
    this.#send = send
    this.#probes = new RemoteProbes((upstream, target, timeoutMs) => {
      send({ kind: 'poll', upstream, target, timeoutMs })
    })
    this.#buckets = new RemoteBuckets({
      take: (id, clientId, allowance) => {
        send({ kind: 'take', id, clientId, allowance })
      },
      refund: (clientId, allowance) => {
        send({ kind: 'refund', clientId, allowance })
      }
    }, new LocalBuckets(() => performance.now()))
    this.started = new Promise(resolve => {
      this.#resolveStarted = resolve
    })
    this.#stopped = new Promise(resolve => {
      this.#resolveStopped = resolve
    })
  }

  /** Serves until a `stop` message; `onBuilt` receives the metrics. */
  async serve (
    { config, sandboxUrl, resetCount }: StartMessage,
    log: Logger,
    onBuilt: (metrics: Metrics) => void = () => {}
  ): Promise<void> {
    this.#resetCount = resetCount
    const server = await buildProxyServer(config, sandboxUrl, log, {
      probeTransportOf: upstream => this.#probes.transportTo(upstream),
      buckets: this.#buckets,
      onAdvanced: () => {
        const stamped = this.#server?.statusSources.tracker.stamped
        if (stamped !== undefined) this.#send({ kind: 'head', resetCount: this.#resetCount, stamped })
      },
      onInvalidated: purge => {
        this.#send({ kind: 'invalidated', purge })
      },
      onChainReset: () => {
        this.#send({ kind: 'chain_reset', resetCount: ++this.#resetCount })
      }
    })
    this.#server = server
    onBuilt(server.metrics)
    try {
      this.#send({ kind: 'listening', url: await server.listen() })
      await server.start()
      this.#send({ kind: 'ready' })
    } catch (error) {
      await server.close()
      throw error
    }
    await server.stop(await this.#stopped, async () => {
      const finalReport: ToPrimary = {
        kind: 'final_report',
        metrics: await server.metrics.snapshot(),
        recent: server.statusSources.recent.snapshot
      }
      // The report is large, and a process that exits loses unsent messages.
      await new Promise<void>(resolve => {
        this.#send(finalReport, resolve)
      })
    })
  }

  onMessage (message: ToWorker): void {
    const { tracker } = this.#server?.statusSources ?? {}
    switch (message.kind) {
      case 'start':
        return this.#resolveStarted(message)
      case 'stop':
        return this.#resolveStopped(message.deadlines)
      case 'query':
        this.#runQuery(message.query).then(result => {
          this.#send({ kind: 'query_result', id: message.id, result })
        }, () => {})
        return
      case 'poll_result':
        return this.#probes.onPollResult(message.upstream, message.target, message.result, () => {
          if (message.target === indexTarget) this.#server?.components.upstreams.poll(message.upstream).catch(() => {})
        })
      case 'take_result':
        return this.#buckets.onTakeResult(message.id, message.waitMs)
      case 'head':
        if (message.resetCount === this.#resetCount) tracker?.learnProven(message.stamped)
        return
      // Each worker verifies its own upstreams before it resets its chain (law 7).
      case 'chain_reset':
        if (message.resetCount > this.#resetCount) this.#server?.components.upstreams.markUnverified()
    }
  }

  async #runQuery (query: WorkerQuery): Promise<WorkerQueryResult> {
    const server = this.#server
    if (server === undefined) return { error: 'the worker has not started yet' }
    try {
      switch (query.kind) {
        case 'metrics':
          return { value: await server.metrics.snapshot() }
        case 'status':
          return { value: { ...statusOf(server.statusSources), pid: process.pid } }
        case 'purge':
          return { value: await server.purger.purge(Buffer.from(query.body)) }
        case 'purge_locally':
          return { value: await server.purger.purgeLocally(Buffer.from(query.body)) }
      }
    } catch (error) {
      if (!(error instanceof ErrorResponse)) return { error: server.mask((error as Error).message) }
      const { status, code, message, rawHeaders } = error
      return { errorResponse: { status, code, message, rawHeaders } }
    }
  }
}

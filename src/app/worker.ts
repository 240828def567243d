import cluster from 'node:cluster'
import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/token-buckets.js'
import { type Config } from '../config/schema.js'
import { Metrics } from '../metrics/metrics.js'
import { ErrorResponse } from '../api/error-response.js'
import { processStatusOf } from '../http/status.js'
import { type ResponsePosition } from '../api/position.js'
import { type TailDemand, type FollowEvent } from '../follow/follower.js'
import {
  type WorkerQuery,
  type ChainResetCount,
  type ShutdownDeadlines,
  type ToPrimary,
  type WorkerQueryResult,
  type ToWorker
} from '../workers/messages.js'
import { Deferred } from '../workers/deferred.js'
import { RemoteBuckets } from '../workers/remote-buckets.js'
import { ProbesThroughPrimary } from '../upstreams/shared-poller.js'
import { watchDescriptors } from './descriptors.js'
import { installFaultHandlers } from './process-exit.js'
import { type ExitCode, exitCodes, type Io, UsageError } from './io.js'
import { openLog } from './log.js'
import { type ProxyServer, buildProxyServer } from './proxy-server.js'
import { WorkerDiskFolder } from './worker-disk-folder.js'

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
  const metrics = new Metrics()
  metrics.process.countLostLines(lostLines)
  const unwatch = watchDescriptors(log, () => {
    metrics.process.descriptorsExhausted()
  })
  const serving = channel.serve(start, log, metrics)
  installFaultHandlers(io, log, masker, {
    metrics,
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

/** Reactions to messages that need a server. */
interface MessageReceiver {
  runQuery(query: WorkerQuery): Promise<WorkerQueryResult>
  /** Polls an upstream of which another worker has a result. */
  poll(upstream: string): void
  learnHead(stamped: ResponsePosition): void
  leadFollowing(): void
  onFollowDemand(demand: TailDemand): void
  onFollowEvent(event: FollowEvent): void
  reverifyAll(): void
  replaceUpstreams(config: Config): void
}

/** Receives messages until the server is built. */
const notStarted: MessageReceiver = {
  runQuery: async () => ({ error: 'the worker has not started yet' }),
  poll: () => {},
  learnHead: () => {},
  leadFollowing: () => {},
  onFollowDemand: () => {},
  onFollowEvent: () => {},
  reverifyAll: () => {},
  replaceUpstreams: () => {}
}

/** Sends a message to the primary process; `onSent` also runs after a disconnect. */
export type SendToPrimary = (message: ToPrimary, onSent?: () => void) => void

/** Message channel between a worker and the primary process. */
export class PrimaryChannel {
  readonly #send: SendToPrimary
  readonly #probes: ProbesThroughPrimary
  readonly #buckets: RemoteBuckets
  readonly #start = new Deferred<StartMessage>()
  readonly #stop = new Deferred<ShutdownDeadlines | undefined>()
  #receiver: MessageReceiver = notStarted
  // Upstreams may change while the server is being built.
  #changedUpstreams: Config | undefined
  #resetCount: ChainResetCount = 0
  #folder: WorkerDiskFolder | undefined

  constructor (send: SendToPrimary) {
    this.#send = send
    this.#probes = new ProbesThroughPrimary((upstream, target, timeoutMs) => {
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
  }

  /** Resolves with the start message. */
  get started (): Promise<StartMessage> {
    return this.#start.promise
  }

  /** Serves until a `stop` message. */
  async serve (
    { config, sandbox, resetCount, cordoned }: StartMessage,
    log: Logger,
    metrics: Metrics = new Metrics()
  ): Promise<void> {
    this.#resetCount = resetCount
    const server = await buildProxyServer(config, sandbox, log, metrics, {
      probeTransportOf: upstream => this.#probes.transportTo(upstream),
      buckets: this.#buckets,
      cordoned,
      folder: this.#folder,
      following: {
        demand: demand => {
          this.#send({ kind: 'follow_demand', demand })
        },
        publish: event => {
          this.#send({ kind: 'follow', resetCount: this.#resetCount, event })
        }
      },
      onAdvanced: stamped => {
        this.#send({ kind: 'head', resetCount: this.#resetCount, stamped })
      },
      onInvalidated: purge => {
        this.#send({ kind: 'invalidated', purge })
      },
      onChainReset: () => {
        this.#send({ kind: 'chain_reset', resetCount: ++this.#resetCount })
      }
    })
    this.#receiver = new ServingWorker(server, metrics)
    if (this.#changedUpstreams !== undefined) this.#receiver.replaceUpstreams(this.#changedUpstreams)
    try {
      this.#send({ kind: 'listening', url: await server.listen() })
      await server.start()
      this.#send({ kind: 'ready' })
    } catch (error) {
      await server.close()
      throw error
    }
    await server.stop(await this.#stop.promise, async () => {
      const finalReport: ToPrimary = {
        kind: 'final_report',
        metrics: await metrics.snapshot(),
        recent: server.statusSources.recent.snapshot
      }
      // The report is large, and a process that exits loses unsent messages.
      await new Promise<void>(resolve => {
        this.#send(finalReport, resolve)
      })
    })
  }

  onMessage (message: ToWorker): void {
    switch (message.kind) {
      case 'start':
        this.#folder = message.folder && new WorkerDiskFolder(message.folder, this.#send)
        return this.#start.resolve(message)
      case 'stop':
        return this.#stop.resolve(message.deadlines)
      case 'query':
        this.#receiver.runQuery(message.query).then(result => {
          this.#send({ kind: 'query_result', id: message.id, result })
        }, () => {})
        return
      case 'poll_result':
        return this.#probes.onPollResult(message.upstream, message.target, message.result, () => {
          this.#receiver.poll(message.upstream)
        })
      case 'upstreams':
        this.#changedUpstreams = message.config
        return this.#receiver.replaceUpstreams(message.config)
      case 'take_result':
        return this.#buckets.onTakeResult(message.id, message.waitMs)
      case 'disk_spaces':
      case 'disk_size':
      case 'disk_changed':
        return this.#folder?.onMessage(message)
      case 'head':
        if (message.resetCount === this.#resetCount) this.#receiver.learnHead(message.stamped)
        return
      case 'follow':
        if (message.resetCount === this.#resetCount) this.#receiver.onFollowEvent(message.event)
        return
      case 'follow_lead':
        return this.#receiver.leadFollowing()
      case 'follow_demand':
        return this.#receiver.onFollowDemand(message.demand)
      case 'chain_reset':
        if (message.resetCount > this.#resetCount) this.#receiver.reverifyAll()
    }
  }
}

/** Receives messages for a server. */
class ServingWorker implements MessageReceiver {
  readonly #server: ProxyServer
  readonly #metrics: Metrics
  #replacing: Promise<void> = Promise.resolve()

  constructor (server: ProxyServer, metrics: Metrics) {
    this.#server = server
    this.#metrics = metrics
  }

  async runQuery (query: WorkerQuery): Promise<WorkerQueryResult> {
    const { statusSources, purger } = this.#server
    try {
      switch (query.kind) {
        case 'metrics':
          return { value: await this.#metrics.snapshot() }
        case 'status':
          return { value: { ...processStatusOf(statusSources), pid: process.pid } }
        case 'purge':
          return { value: await purger.purge(Buffer.from(query.body)) }
        case 'purge_locally':
          return { value: await purger.purgeLocally(Buffer.from(query.body)) }
        case 'cordon':
          return { value: this.#server.setCordoned(query.upstream, query.isCordoned) }
      }
    } catch (error) {
      if (!(error instanceof ErrorResponse)) return { error: this.#server.mask((error as Error).message) }
      const { status, code, message, rawHeaders } = error
      return { errorResponse: { status, code, message, rawHeaders } }
    }
  }

  poll (upstream: string): void {
    this.#server.components.headPollers.poll(upstream).catch(() => {})
  }

  learnHead (stamped: ResponsePosition): void {
    this.#server.statusSources.tracker.learnProven(stamped)
  }

  leadFollowing (): void {
    this.#server.components.following.lead()
  }

  onFollowDemand (demand: TailDemand): void {
    this.#server.components.following.onDemand(demand)
  }

  onFollowEvent (event: FollowEvent): void {
    this.#server.components.following.onEvent(event)
  }

  // One change after the other, so that the last one stays.
  replaceUpstreams (config: Config): void {
    this.#replacing = this.#replacing.then(async () => {
      await this.#server.replaceUpstreams(config)
    }).catch(() => {})
  }

  // Each worker verifies its own upstreams before it resets its chain (law 7: chains never mix).
  reverifyAll (): void {
    this.#server.components.headPollers.reverifyAll().catch(() => {})
  }
}

import cluster from 'node:cluster'
import { type Logger } from 'pino'
import { type LogMember } from '../cache/disk-keeper.js'
import { type Config } from '../config/schema.js'
import { LocalBuckets, noBuckets } from '../clients/token-buckets.js'
import { Metrics } from '../metrics/metrics.js'
import { processStatusOf } from '../http/status.js'
import { IpcBuckets, IpcCarrier, entryLogThrough, memberMethodsOf } from '../peers/ipc-carrier.js'
import { IpcCalls, isCall } from '../peers/ipc-calls.js'
import { IpcLeases } from '../peers/fetch-leases.js'
import { Deferred } from '../peers/deferred.js'
import {
  type PrimaryMethods,
  type ShutdownDeadlines,
  type StartMessage,
  type ToPrimary,
  type ToWorker,
  type WorkerMethods
} from '../peers/messages.js'
import { type Host } from './chain.js'
import { watchDescriptors } from './listen.js'
import { type ExitCode, exitCodes, installFaultHandlers, type Io, UsageError } from './io.js'
import { openLog } from './log.js'
import { type ProxyServer, buildProxyServer } from './proxy-server.js'

const aliveEveryMs = 1000
// Limits the messages that wait while the primary process hangs.
const maxUnsent = 10_000
// Limits the wait for calls that the primary process answers at once.
const callTimeoutMs = 1000
// Shorter for a lease, because a poll waits for it.
const leaseTimeoutMs = 250

/** Runs one worker process; the primary process starts and stops it. */
export async function runWorker (io: Io): Promise<ExitCode> {
  const { worker } = cluster
  if (worker === undefined) throw new UsageError('unknown command worker')
  // Terminals and supervisors signal the whole process group, so a worker waits for the primary's `stop`.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) io.onSignal(signal, () => {})
  let unsent = 0
  const send = (message: ToPrimary): void => {
    // Drops a message beyond the limit; a dropped call times out (law 10: nothing grows without bound).
    if (!worker.isConnected() || unsent >= maxUnsent) return
    unsent++
    worker.send(message, undefined, () => {
      unsent--
    })
  }
  const link = new PrimaryLink(send)
  const timer = setInterval(() => send({ kind: 'state', state: 'alive' }), aliveEveryMs).unref()
  worker.on('message', (message: ToWorker) => link.receive(message))
  send({ kind: 'state', state: 'up' })
  const start = await link.started
  const { log: unnamedLog, masker, lostLines } = openLog(io, start.config)
  const log = unnamedLog.child({ worker: worker.id })
  const metrics = new Metrics()
  metrics.process.countLostLines(lostLines)
  const unwatch = watchDescriptors(log, () => metrics.process.descriptorsExhausted())
  const serving = link.serve(start, log, metrics, config => masker.addSecretsOf(config))
  installFaultHandlers(io, log, masker, {
    metrics,
    stop: async deadlines => {
      link.receive({ kind: 'stop', deadlines })
      await serving
    }
  })
  try {
    await serving
    return exitCodes.ok
  } catch (error) {
    send({ kind: 'state', state: 'failed', message: masker.mask((error as Error).message) })
    return exitCodes.failed
  } finally {
    unwatch()
    clearInterval(timer)
    worker.disconnect()
  }
}

/** Link of a worker to the primary process. */
class PrimaryLink {
  readonly #send: (message: ToPrimary) => void
  readonly #primary: IpcCalls<PrimaryMethods>
  readonly #carrier: IpcCarrier
  readonly #start = new Deferred<StartMessage>()
  readonly #stop = new Deferred<ShutdownDeadlines | undefined>()
  readonly #entryLogMember = new Deferred<LogMember>()
  readonly #server = new Deferred<ProxyServer>()
  #mask = (text: string): string => text
  #onReload = (_config: Config): void => {}
  #replacing: Promise<void> = Promise.resolve()

  constructor (send: (message: ToPrimary) => void) {
    this.#send = send
    this.#primary = new IpcCalls(send, this.#methods, text => this.#mask(text))
    this.#carrier = new IpcCarrier(send, this.#primary)
  }

  /** Resolves with the start message. */
  get started (): Promise<StartMessage> {
    return this.#start.promise
  }

  receive (message: ToWorker): void {
    if (message.kind === 'start') this.#start.resolve(message)
    else if (message.kind === 'stop') this.#stop.resolve(message.deadlines)
    else if (isCall(message)) this.#primary.receive(message)
    else this.#carrier.receive(message)
  }

  /** Serves until a `stop` message. */
  async serve (
    start: StartMessage,
    log: Logger,
    metrics: Metrics,
    onReload: (config: Config) => void
  ): Promise<void> {
    this.#onReload = onReload
    const primary = this.#primary
    const server = await buildProxyServer(start.config, start.sandbox, log, metrics, this.#hostOf(start))
    this.#mask = server.mask
    this.#server.resolve(server)
    try {
      this.#send({ kind: 'state', state: 'listening', url: await server.listen() })
      await server.start()
      this.#send({ kind: 'state', state: 'ready' })
    } catch (error) {
      await server.close()
      throw error
    }
    await server.stop(await this.#stop.promise, async () => {
      const { recent } = server.statusSources
      // Waits until the last report is sent, because a process that exits loses unsent messages.
      await primary.call(callTimeoutMs, 'report', await metrics.snapshot(), recent.snapshot).catch(() => {})
    })
  }

  #hostOf ({ configuration, cordoned, entryLog }: StartMessage): Host {
    const primary = this.#primary
    return {
      configuration,
      cordoned,
      carrier: this.#carrier,
      entryLog: entryLog && entryLogThrough(primary, entryLog, this.#entryLogMember),
      buckets: new IpcBuckets(primary, new LocalBuckets(() => performance.now())),
      budgets: new IpcBuckets(primary, noBuckets),
      leasesOf: peers => new IpcLeases(primary, peers, () => performance.now()),
      lease: async (name, ms) => await primary.call(leaseTimeoutMs, 'lease', name, ms),
      release: async name => await primary.call(leaseTimeoutMs, 'release', name),
      purgeOthers: body => primary.call(callTimeoutMs, 'purge', body).catch(() => {})
    }
  }

  get #methods (): WorkerMethods {
    const built = this.#server.promise
    return {
      ...memberMethodsOf(this.#entryLogMember.promise),
      metrics: async () => await (await built).metrics.snapshot(),
      status: async () => ({ ...processStatusOf((await built).statusSources), pid: process.pid }),
      purge: async (body, id) => await (await built).purge(Buffer.from(body), id),
      purgeLocally: async (body, begun) => await (await built).purgeLocally(Buffer.from(body), begun),
      setCordoned: async (upstream, isCordoned) => await (await built).setCordoned(upstream, isCordoned),
      // Runs one change after the other, so that the last one stays.
      replaceUpstreams: async config => {
        this.#replacing = this.#replacing.then(async () => await (await built).replaceUpstreams(config)).catch(() => {})
        await this.#replacing
      },
      replaceClients: async config => {
        const replaced = this.#replacing.then(async () => {
          this.#onReload(config)
          await (await built).reload(config)
        })
        this.#replacing = replaced.catch(() => {})
        await replaced
      }
    }
  }
}

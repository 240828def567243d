import cluster from 'node:cluster'
import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/buckets.js'
import { type Metrics } from '../metrics/metrics.js'
import { Refusal } from '../api/refusal.js'
import { statusOf } from '../http/status.js'
import { indexTarget } from '../chain/head-poll.js'
import {
  type Asked,
  type Chapter,
  type Patience,
  type ToPrimary,
  type Told,
  type ToWorker
} from '../workers/messages.js'
import { RemoteBuckets } from '../workers/remote-buckets.js'
import { RemoteProbes } from '../workers/remote-probes.js'
import { watchDescriptors } from './descriptors.js'
import { takeCareOfFaults } from './faults.js'
import { type ExitCode, exitCodes, type Io, UsageError } from './io.js'
import { logOf } from './log.js'
import { type Reader, readerOf } from './reader.js'

type Begin = Extract<ToWorker, { kind: 'begin' }>

const aliveEveryMs = 1000

/** One of several processes that answer reads; it is begun, and told to stop, by the one that began it. */
export async function runWorker (io: Io): Promise<ExitCode> {
  const { worker } = cluster
  if (worker === undefined) throw new UsageError('unknown command worker')
  // A terminal, and who ends a whole group of processes, tell them all: this one is told in its turn.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) io.onSignal(signal, () => {})
  const tell: Tell = (message, onSent = () => {}) => {
    if (worker.isConnected()) worker.send(message, undefined, onSent)
    else onSent()
  }
  const line = new WorkerLine(tell)
  const timer = setInterval(() => {
    tell({ kind: 'alive' })
  }, aliveEveryMs).unref()
  worker.on('message', (message: ToWorker) => {
    line.hear(message)
  })
  tell({ kind: 'up' })
  const begin = await line.begun
  const { log: first, masking, lost } = logOf(io, begin.config)
  const log = first.child({ worker: worker.id })
  let metrics: Metrics | undefined
  const unwatch = watchDescriptors(log, () => {
    metrics?.process.exhausted()
  })
  const served = line.serve(begin, log, mine => {
    metrics = mine
    mine.process.observeLog(lost)
  })
  takeCareOfFaults(io, log, masking, {
    metrics: () => metrics,
    stop: async patience => {
      line.hear({ kind: 'stop', patience })
      await served
    }
  })
  try {
    await served
    return exitCodes.ok
  } catch (error) {
    tell({ kind: 'failed', message: masking.mask((error as Error).message) })
    return exitCodes.failed
  } finally {
    unwatch()
    clearInterval(timer)
    worker.disconnect()
  }
}

/** Says something to the primary process, and tells when that has left, or nobody is there to hear it. */
export type Tell = (message: ToPrimary, onSent?: () => void) => void

/** What a worker and the primary process say to each other. */
export class WorkerLine {
  readonly begun: Promise<Begin>
  readonly #tell: Tell
  readonly #probes: RemoteProbes
  readonly #buckets: RemoteBuckets
  readonly #stopped: Promise<Patience | undefined>
  #begin: (begin: Begin) => void = () => {}
  #stop: (patience: Patience | undefined) => void = () => {}
  #reader: Reader | undefined
  #chapter: Chapter = 0

  constructor (tell: Tell) {
    this.#tell = tell
    this.#probes = new RemoteProbes((node, target, timeoutMs) => {
      tell({ kind: 'poll', node, target, timeoutMs })
    })
    this.#buckets = new RemoteBuckets({
      take: (id, subject, allowance) => {
        tell({ kind: 'take', id, subject, allowance })
      },
      giveBack: (subject, allowance) => {
        tell({ kind: 'give_back', subject, allowance })
      }
    }, new LocalBuckets(() => performance.now()))
    this.begun = new Promise(resolve => {
      this.#begin = resolve
    })
    this.#stopped = new Promise(resolve => {
      this.#stop = resolve
    })
  }

  /** Serves until it is told to stop; `onBuilt` hears of what counts what it does. */
  async serve (
    { config, sandboxUrl, chapter }: Begin,
    log: Logger,
    onBuilt: (metrics: Metrics) => void = () => {}
  ): Promise<void> {
    this.#chapter = chapter
    const reader = await readerOf(config, sandboxUrl, log, {
      asksForAll: upstream => this.#probes.to(upstream),
      countsForAll: this.#buckets,
      onAhead: () => {
        const stamped = this.#reader?.status.tracker.stamped
        if (stamped !== undefined) this.#tell({ kind: 'head', chapter: this.#chapter, stamped })
      },
      onDropped: purge => {
        this.#tell({ kind: 'dropped', purge })
      },
      onOtherChain: () => {
        this.#tell({ kind: 'other_chain', chapter: ++this.#chapter })
      }
    })
    this.#reader = reader
    onBuilt(reader.metrics)
    try {
      this.#tell({ kind: 'listening', url: await reader.listen() })
      await reader.begin()
      this.#tell({ kind: 'ready' })
    } catch (error) {
      await reader.close()
      throw error
    }
    await reader.stop(await this.#stopped, async () => {
      const said: ToPrimary = {
        kind: 'last_word',
        metrics: await reader.metrics.told(),
        recent: reader.status.recent.told
      }
      // It is long, and what has not left when a process ends is lost.
      await new Promise<void>(resolve => {
        this.#tell(said, resolve)
      })
    })
  }

  hear (message: ToWorker): void {
    const { tracker } = this.#reader?.status ?? {}
    switch (message.kind) {
      case 'begin':
        return this.#begin(message)
      case 'stop':
        return this.#stop(message.patience)
      case 'ask':
        this.#answer(message.asked).then(told => {
          this.#tell({ kind: 'answer', id: message.id, told })
        }, () => {})
        return
      case 'polled':
        return this.#probes.hear(message.node, message.target, message.polled, () => {
          if (message.target === indexTarget) this.#reader?.built.nodes.ask(message.node).catch(() => {})
        })
      case 'taken':
        return this.#buckets.hear(message.id, message.waitMs)
      case 'head':
        if (message.chapter === this.#chapter) tracker?.hear(message.stamped)
        return
      // Its own nodes tell whether that is so.
      case 'other_chain':
        if (message.chapter > this.#chapter) this.#reader?.built.nodes.doubt()
    }
  }

  async #answer (asked: Asked): Promise<Told> {
    const reader = this.#reader
    if (reader === undefined) return { error: 'the worker has not begun yet' }
    try {
      switch (asked.what) {
        case 'metrics':
          return { value: await reader.metrics.told() }
        case 'status':
          return { value: { ...statusOf(reader.status), pid: process.pid } }
        case 'purge':
          return { value: await reader.purger.purge(Buffer.from(asked.body)) }
        case 'follow':
          return { value: await reader.purger.follow(Buffer.from(asked.body)) }
      }
    } catch (error) {
      if (!(error instanceof Refusal)) return { error: reader.mask((error as Error).message) }
      const { status, code, message, lines } = error
      return { refusal: { status, code, message, lines } }
    }
  }
}

import cluster, { type Worker } from 'node:cluster'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { withTimeout } from '../with-timeout.js'
import { closeUnacceptedConnections, type RejectedConnections } from '../node.js'
import { Deferred } from './deferred.js'
import { IpcCalls, isCall } from './ipc-calls.js'
import {
  type PrimaryMethods,
  type SentMessage,
  type ShutdownDeadlines,
  type StartMessage,
  type ToPrimary,
  type ToWorker,
  type WorkerMethods
} from './messages.js'

/** Program that worker processes run. */
export interface Program {
  readonly file: string
  /** Flags of Node.js itself. */
  readonly flags: readonly string[]
  /** Receives what workers log; without it they write to the standard output of this process. */
  readonly onLogLine?: (line: string) => void
}

/** Number of workers and start options for one configuration. */
export type WorkerPoolOptions = WorkerHandleOptions & { readonly count: number }

/** Notifications about worker processes. */
export interface WorkerPoolListener {
  /** A worker exited unexpectedly, or was killed because it hung. */
  onLost(pid: number, exit: WorkerExit): void
  /** A replacement could not start; the pool retries. */
  onReplacementFailed(reason: string): void
  /** A worker exited, for any reason. */
  onExited(worker: WorkerHandle): void
}

const tickMs = 1000
// A worker silent for this many ticks hangs; its clients have timed out long before.
const maxSilentTicks = 10
// Backs off, because a worker that cannot start must not be restarted at full speed.
const minBackoffMs = 250
const maxBackoffMs = 10_000
// Forgives one loss per ten seconds, so a rare exit is replaced without a delay.
const lossesForgivenPerTick = 0.1
// Time from the end of a worker's drain until it is killed: it finishes its requests within nine seconds.
const stopTimeoutMs = 10_000
// Drain of a worker in a roll-out, which no load balancer notices.
const rollOutDrainMs = 1000

/** Runs a fixed number of worker processes, and replaces each that exits. */
export class WorkerPool {
  readonly #listener: WorkerPoolListener
  readonly #onLogLine: Program['onLogLine']
  readonly #workers = new Set<WorkerHandle>()
  readonly #stopping = new Set<WorkerHandle>()
  readonly #timer: NodeJS.Timeout
  // Connections that one worker could not accept, which another worker gets.
  readonly #rejectedConnections: RejectedConnections = new WeakSet()
  // Kills all workers when this process exits without waiting for them.
  readonly #killAll = (): void => {
    for (const worker of this.all) worker.kill()
  }
  // Undefined before the workers listen.
  #spec: WorkerPoolOptions | undefined
  #isStopped = false
  #recentLosses = 0

  constructor ({ file, flags, onLogLine }: Program, listener: WorkerPoolListener) {
    this.#listener = listener
    this.#onLogLine = onLogLine
    cluster.setupPrimary({
      exec: file,
      execArgv: [...flags],
      args: ['worker'],
      serialization: 'advanced',
      stdio: ['inherit', onLogLine === undefined ? 'inherit' : 'pipe', 'inherit', 'ipc']
    })
    this.#timer = setInterval(() => this.#tick(), tickMs).unref()
    process.once('exit', this.#killAll)
  }

  /** Workers that are not stopping. */
  get current (): readonly WorkerHandle[] {
    return [...this.#workers]
  }

  /** All workers that may serve clients; stopping ones come last. */
  get all (): readonly WorkerHandle[] {
    return [...this.#workers, ...this.#stopping]
  }

  /** Starts the workers; resolves with the address once all listen, rejects with the reason why one does not. */
  async listen (spec: WorkerPoolOptions): Promise<string> {
    this.#spec = spec
    const workers = Array.from({ length: spec.count }, () => this.#add(spec))
    const [url = ''] = await Promise.all(workers.map(async worker => await worker.listening))
    for (const worker of workers) this.#replaceWhenExited(worker)
    return url
  }

  /** Resolves when every worker has polled the upstreams. */
  async waitUntilReady (): Promise<void> {
    await Promise.all([...this.#workers].map(async worker => await worker.ready.catch(() => {})))
  }

  /** Sends a message to all workers but its sender. */
  broadcast (message: ToWorker, from?: WorkerHandle): void {
    for (const worker of this.all) if (worker !== from) worker.send(message)
  }

  /** Replaces the workers one by one; rejects without any change if the first new worker cannot start. */
  async rollOut (spec: WorkerPoolOptions): Promise<void> {
    const first = this.#add(spec)
    try {
      await first.ready
    } catch (error) {
      await this.#stopWorker(first)
      throw error
    }
    this.#replaceWhenExited(first)
    // The first new worker runs, so replacements use the new spec from now on.
    this.#spec = spec
    while (!this.#isStopped && this.#workersOf(spec).length < spec.count) {
      await this.#stopOldest(spec)
      await this.#startReplacement(minBackoffMs)
    }
    while (!this.#isStopped && await this.#stopOldest(spec));
  }

  /** Drains and stops all workers. */
  async stop (deadlines?: ShutdownDeadlines): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    await Promise.all(this.all.map(async worker => await this.#stopWorker(worker, deadlines)))
    process.off('exit', this.#killAll)
  }

  #add (spec: WorkerPoolOptions): WorkerHandle {
    const worker = new WorkerHandle(spec, this.#rejectedConnections, this.#onLogLine)
    this.#workers.add(worker)
    worker.exited.then(() => this.#listener.onExited(worker), () => {})
    return worker
  }

  #workersOf (spec: WorkerPoolOptions): WorkerHandle[] {
    return [...this.#workers].filter(worker => worker.hasSpec(spec))
  }

  /** Stops the oldest worker of another spec; returns false if there is none. */
  async #stopOldest (spec: WorkerPoolOptions): Promise<boolean> {
    const old = [...this.#workers].find(worker => !worker.hasSpec(spec))
    if (old !== undefined) await this.#stopWorker(old)
    return old !== undefined
  }

  #replaceWhenExited (worker: WorkerHandle): void {
    worker.exited.then(async exit => {
      if (!this.#workers.delete(worker) || this.#isStopped) return
      this.#listener.onLost(worker.pid, exit)
      // Backs off if more workers were lost than run, because workers exit right after their start.
      const losses = ++this.#recentLosses - (this.#spec?.count ?? 0)
      if (losses > 0) await pause(backoffAfter(losses))
      await this.#startReplacement(minBackoffMs)
    }).catch(() => {})
  }

  async #startReplacement (backoffMs: number): Promise<void> {
    const spec = this.#spec
    // A roll-out may have started the replacement already.
    if (this.#isStopped || spec === undefined || this.#workersOf(spec).length >= spec.count) return
    const worker = this.#add(spec)
    try {
      await worker.ready
      this.#replaceWhenExited(worker)
    } catch (error) {
      await this.#stopWorker(worker)
      if (this.#isStopped) return
      this.#listener.onReplacementFailed((error as Error).message)
      await pause(backoffMs)
      await this.#startReplacement(Math.min(2 * backoffMs, maxBackoffMs))
    }
  }

  async #stopWorker (worker: WorkerHandle, deadlines: ShutdownDeadlines = {}): Promise<void> {
    const { drainMs = rollOutDrainMs } = deadlines
    this.#workers.delete(worker)
    this.#stopping.add(worker)
    worker.stop({ ...deadlines, drainMs })
    const exit = await withTimeout(drainMs + stopTimeoutMs, worker.exited)
    if (exit === undefined) worker.kill()
    this.#stopping.delete(worker)
  }

  #tick (): void {
    this.#recentLosses = Math.max(0, this.#recentLosses - lossesForgivenPerTick)
    for (const worker of this.all) if (worker.countSilentTick(maxSilentTicks)) worker.kill()
  }
}

function backoffAfter (losses: number): number {
  return Math.min(minBackoffMs * 2 ** losses, maxBackoffMs)
}

/** Exit code or signal of a worker process. */
export interface WorkerExit {
  readonly code: number | null
  readonly signal: string | null
}

/** Start message of a worker, and what it reaches in this process. */
export interface WorkerHandleOptions {
  startMessage(): StartMessage
  methodsFor(worker: WorkerHandle): PrimaryMethods
  onMessage(message: SentMessage, from: WorkerHandle): void
}

// Waits this long after the exit of a worker, whose last messages may still arrive.
const finalMessageTimeoutMs = 100
// Waits a minute for the first message, because a busy machine may start a process that slowly.
const maxStartTicks = 60

/** A worker process, as seen by the primary. */
export class WorkerHandle {
  /** Resolves with the address; rejects if the worker exits first. */
  readonly listening: Promise<string>
  /** Resolves when the worker has polled its upstreams; rejects if it exits first. */
  readonly ready: Promise<void>
  readonly exited: Promise<WorkerExit>
  readonly calls: IpcCalls<WorkerMethods>
  readonly #worker: Worker
  readonly #options: WorkerHandleOptions
  readonly #startup = { listening: new Deferred<string>(), ready: new Deferred<undefined>() }
  #isListening = false
  #silentTicks = 0
  #isUp = false

  constructor (
    options: WorkerHandleOptions,
    rejectedConnections: RejectedConnections,
    onLogLine?: (line: string) => void
  ) {
    this.#options = options
    this.#worker = cluster.fork()
    this.calls = new IpcCalls(message => this.send(message), options.methodsFor(this))
    const { stdout } = this.#worker.process
    if (stdout !== null && onLogLine !== undefined) {
      createInterface({ input: stdout }).on('line', line => onLogLine(`${line}\n`))
    }
    closeUnacceptedConnections(this.#worker.process, rejectedConnections)
    this.listening = this.#startup.listening.promise
    this.ready = this.#startup.ready.promise
    this.#worker.on('message', (message: ToPrimary) => this.#onMessage(message))
    // Waits for last messages, which may arrive after the exit; within a limit, because Node.js never emits
    // `disconnect` with connections in transit.
    const disconnected = new Promise<void>(resolve => {
      this.#worker.once('disconnect', resolve)
    })
    this.exited = new Promise(resolve => {
      this.#worker.on('error', error => {
        this.#failStartup(error.message)
        // A process that could not start emits no `exit`.
        if (this.#worker.process.pid === undefined) resolve({ code: null, signal: null })
      })
      this.#worker.on('exit', (code: number | null, signal: string | null) => {
        this.#isListening = false
        this.#failStartup(`the worker exited before it was ready: ${signal ?? code}`)
        this.calls.close()
        withTimeout(finalMessageTimeoutMs, disconnected).then(() => resolve({ code, signal }), () => {})
      })
    })
  }

  /** Returns true if the worker was started with these options. */
  hasSpec (options: WorkerHandleOptions): boolean {
    return this.#options === options
  }

  get pid (): number {
    return this.#worker.process.pid ?? 0
  }

  /** True while the worker accepts connections. */
  get isListening (): boolean {
    return this.#isListening
  }

  /** Sends a message; drops it after the worker has exited. */
  send (message: ToWorker): void {
    if (this.#worker.isConnected()) this.#worker.send(message, () => {})
  }

  /** Counts a second without a message; returns true once the worker counts as hung. */
  countSilentTick (maxTicks: number): boolean {
    return ++this.#silentTicks > (this.#isUp ? maxTicks : maxStartTicks)
  }

  /** Drains and stops the worker; kills a worker that has sent no message yet, because it cannot receive one either. */
  stop (deadlines: ShutdownDeadlines | undefined): void {
    if (this.#isUp) this.send({ kind: 'stop', deadlines })
    else this.kill()
  }

  kill (): void {
    this.#worker.process.kill('SIGKILL')
  }

  #onMessage (message: ToPrimary): void {
    this.#silentTicks = 0
    if (message.kind === 'state') this.#onState(message)
    else if (isCall(message)) this.calls.receive(message)
    else this.#options.onMessage(message, this)
  }

  #onState (message: Extract<ToPrimary, { kind: 'state' }>): void {
    switch (message.state) {
      case 'up':
        this.#isUp = true
        return this.send(this.#options.startMessage())
      case 'listening':
        this.#isListening = true
        return this.#startup.listening.resolve(message.url)
      case 'ready':
        return this.#startup.ready.resolve(undefined)
      case 'failed':
        return this.#failStartup(message.message)
      case 'alive':
    }
  }

  #failStartup (message: string): void {
    this.#startup.listening.reject(new Error(message))
    this.#startup.ready.reject(new Error(message))
  }
}

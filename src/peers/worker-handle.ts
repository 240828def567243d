import cluster, { type Worker } from 'node:cluster'
import { createInterface } from 'node:readline'
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

// Last messages may still arrive this long after the exit.
const finalMessageTimeoutMs = 100
// A busy machine may need a minute to start a process.
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
    // Last messages may arrive after the exit. With connections in transit, Node.js never emits `disconnect`, so the
    // wait is bounded.
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

  /** Drains and stops the worker; kills it if it has sent no message yet, because it cannot receive one either. */
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

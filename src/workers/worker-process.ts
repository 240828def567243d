import cluster, { type Worker } from 'node:cluster'
import { whenLate, within } from '../within.js'
import { endWhatIsNotTaken, type SentBack } from './handed-over.js'
import { type Asked, type Patience, type ToPrimary, type Told, type ToWorker } from './messages.js'

/** What a worker says that is not about itself alone. */
export type Heard = Extract<
  ToPrimary,
  { kind: 'poll' | 'head' | 'other_chain' | 'take' | 'give_back' | 'dropped' | 'last_word' }
>

/** How a worker's process has ended. */
export interface Ended {
  readonly code: number | null
  readonly signal: string | null
}

/** What a worker is begun with, and who hears it. */
export interface WorkerOptions {
  readonly begin: () => Extract<ToWorker, { kind: 'begin' }>
  readonly hear: (heard: Heard, from: WorkerProcess) => void
}

// For an operator, and for who asks whether varve is ready: whoever has no answer by then does without it.
const answerMs = { metrics: 1000, status: 250 }
// How long what a process has said before it ended is still waited for.
const lastWordMs = 100
// On a machine that is busy a process takes its time until it says its first word.
const startingTicks = 60
// A purge waits for Redis, and for who reads what it is about.
const purgeMs = 10_000

/** One worker as the primary process sees it. */
export class WorkerProcess {
  /** Where it listens; fails where it has ended before that. */
  readonly listening: Promise<string>
  /** Has begun to ask the nodes, and heard one where any answers; fails where it has ended before that. */
  readonly ready: Promise<void>
  readonly ended: Promise<Ended>
  readonly #worker: Worker
  readonly #options: WorkerOptions
  readonly #answers = new Map<number, (told: Told) => void>()
  readonly #steps = { listening: stepOf<string>(), ready: stepOf<undefined>() }
  #asked = 0
  #isListening = false
  #silentTicks = 0
  #isUp = false

  constructor (options: WorkerOptions, sentBack: SentBack) {
    this.#options = options
    this.#worker = cluster.fork()
    endWhatIsNotTaken(this.#worker.process, sentBack)
    this.listening = this.#steps.listening.promise
    this.ready = this.#steps.ready.promise
    this.#worker.on('message', (message: ToPrimary) => {
      this.#hear(message)
    })
    // What it said last may come after it has ended; where connections were on their way to it, Node tells of no end of
    // that.
    const heardOut = new Promise<void>(resolve => {
      this.#worker.once('disconnect', resolve)
    })
    this.ended = new Promise(resolve => {
      this.#worker.on('error', error => {
        this.#fail(error.message)
        // One that could not be begun tells of no end.
        if (this.#worker.process.pid === undefined) resolve({ code: null, signal: null })
      })
      this.#worker.on('exit', (code: number | null, signal: string | null) => {
        this.#isListening = false
        this.#fail(`a worker has ended before it was ready: ${signal ?? code}`)
        for (const answer of this.#answers.values()) answer({ error: 'the worker has ended' })
        within(lastWordMs, heardOut).then(() => {
          resolve({ code, signal })
        }, () => {})
      })
    })
  }

  /** Whether it was begun with these. */
  isOf (options: WorkerOptions): boolean {
    return this.#options === options
  }

  get pid (): number {
    return this.#worker.process.pid ?? 0
  }

  /** Whether clients may be led to it. */
  get isListening (): boolean {
    return this.#isListening
  }

  /** Whoever has ended is told nothing. */
  tell (message: ToWorker): void {
    if (this.#worker.isConnected()) this.#worker.send(message, () => {})
  }

  /** Asks it something; it may take its time, but not for ever. */
  async ask (asked: Asked): Promise<Told> {
    const id = ++this.#asked
    const ms = asked.what === 'metrics' || asked.what === 'status' ? answerMs[asked.what] : purgeMs
    let inTime = (): void => {}
    const told = new Promise<Told>(resolve => {
      this.#answers.set(id, resolve)
      inTime = whenLate(ms, () => {
        resolve({ error: 'the worker does not answer' })
      })
    })
    this.tell({ kind: 'ask', id, asked })
    return await told.finally(() => {
      inTime()
      this.#answers.delete(id)
    })
  }

  /** A second has passed; whether it has given no sign of life for so many that it never will. */
  isStuckAfter (ticks: number): boolean {
    return ++this.#silentTicks > (this.#isUp ? ticks : startingTicks)
  }

  /** Has it answer what it has, and end; one that has not said a word yet has nothing, and would not hear it. */
  stop (patience: Patience | undefined): void {
    if (this.#isUp) this.tell({ kind: 'stop', patience })
    else this.kill()
  }

  kill (): void {
    this.#worker.process.kill('SIGKILL')
  }

  #hear (message: ToPrimary): void {
    this.#silentTicks = 0
    switch (message.kind) {
      case 'up':
        this.#isUp = true
        return this.tell(this.#options.begin())
      case 'listening':
        this.#isListening = true
        return this.#steps.listening.resolve(message.url)
      case 'ready':
        return this.#steps.ready.resolve(undefined)
      case 'failed':
        return this.#fail(message.message)
      case 'answer':
        return this.#answers.get(message.id)?.(message.told)
      case 'poll':
      case 'head':
      case 'other_chain':
      case 'take':
      case 'give_back':
      case 'dropped':
      case 'last_word':
        return this.#options.hear(message, this)
      case 'alive':
    }
  }

  #fail (message: string): void {
    this.#steps.listening.reject(new Error(message))
    this.#steps.ready.reject(new Error(message))
  }
}

interface Step<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: Error): void
}

function stepOf<T> (): Step<T> {
  let settle: Pick<Step<T>, 'resolve' | 'reject'> | undefined
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  // Who waits for none of them hears of its end.
  promise.catch(() => {})
  return {
    promise,
    resolve: value => {
      settle?.resolve(value)
    },
    reject: error => {
      settle?.reject(error)
    }
  }
}

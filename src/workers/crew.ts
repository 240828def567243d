import cluster from 'node:cluster'
import { setTimeout as pause } from 'node:timers/promises'
import { within } from '../within.js'
import { type SentBack } from './handed-over.js'
import { type Patience, type ToWorker } from './messages.js'
import { type Ended, WorkerProcess, type WorkerOptions } from './worker-process.js'

/** What a process is begun with. */
export interface Program {
  readonly file: string
  /** Of Node itself. */
  readonly flags: readonly string[]
}

/** What the workers of one configuration are begun with. */
export type Edition = WorkerOptions & { readonly count: number }

/** Who is told of what becomes of workers. */
export interface CrewListener {
  /** One has ended that should not have, or was ended because it gave no sign of life. */
  onLost(pid: number, ended: Ended): void
  /** None could be put in its place yet, and it is tried again. */
  onNotReplaced(reason: string): void
  /** One is gone, whatever the reason. */
  onEnded(worker: WorkerProcess): void
}

const tickMs = 1000
// A worker that is busy for longer than this is stuck: its clients have given up long before.
const silentTicks = 10
// What cannot start is not started without end at full speed.
const firstPauseMs = 250
const longestPauseMs = 10_000
// A loss in ten seconds is no haste.
const forgottenATick = 0.1
// A worker that was told to stop answers what it has, which it does within ten seconds.
const stopMs = 11_000

/** The worker processes: as many as are wanted, each replaced when it ends. */
export class Crew {
  readonly #listener: CrewListener
  readonly #workers = new Set<WorkerProcess>()
  readonly #leaving = new Set<WorkerProcess>()
  readonly #timer: NodeJS.Timeout
  // Connections that a worker had no room for.
  readonly #sentBack: SentBack = new WeakSet()
  // None is left behind by a process that ends without waiting for them.
  readonly #killAll = (): void => {
    for (const worker of this.all) worker.kill()
  }
  #edition: Edition
  #isOver = false
  // Of late.
  #losses = 0

  constructor ({ file, flags }: Program, edition: Edition, listener: CrewListener) {
    this.#edition = edition
    this.#listener = listener
    cluster.setupPrimary({ exec: file, execArgv: [...flags], args: ['worker'], serialization: 'advanced' })
    this.#timer = setInterval(() => {
      this.#tick()
    }, tickMs).unref()
    process.once('exit', this.#killAll)
  }

  /** Those that are to stay. */
  get staying (): readonly WorkerProcess[] {
    return [...this.#workers]
  }

  /** All that answer clients, or soon will, those that leave last. */
  get all (): readonly WorkerProcess[] {
    return [...this.#workers, ...this.#leaving]
  }

  /** Resolves with the address when every worker listens; throws what kept one from it. */
  async listen (): Promise<string> {
    const begun = Array.from({ length: this.#edition.count }, () => this.#add(this.#edition))
    const [url = ''] = await Promise.all(begun.map(async worker => await worker.listening))
    for (const worker of begun) this.#watch(worker)
    return url
  }

  /** Resolves when every worker has asked the nodes where they stand. */
  async ready (): Promise<void> {
    await Promise.all([...this.#workers].map(async worker => {
      await worker.ready.catch(() => {})
    }))
  }

  /**
   * Tells all of an edition, but for the one that told it: what a node is called, and which chain it is, may be others
   * in another.
   */
  tell (edition: Edition, message: ToWorker, from?: WorkerProcess): void {
    for (const worker of this.all) if (worker !== from && worker.isOf(edition)) worker.tell(message)
  }

  /**
   * Puts workers of another edition in the place of those that run, one by one; throws where the first of them cannot
   * start, and nothing has changed then.
   */
  async roll (edition: Edition): Promise<void> {
    const first = this.#add(edition)
    try {
      await first.ready
    } catch (error) {
      await this.#retire(first)
      throw error
    }
    this.#watch(first)
    // It has come up to stay: whoever is lost from now on is replaced by one of these.
    this.#edition = edition
    while (!this.#isOver && this.#of(edition).length < edition.count) {
      await this.#retireOne(edition)
      await this.#replace(firstPauseMs)
    }
    while (!this.#isOver && await this.#retireOne(edition));
  }

  /** Has all of them answer what they have, and end. */
  async stop (patience?: Patience): Promise<void> {
    this.#isOver = true
    clearInterval(this.#timer)
    await Promise.all(this.all.map(async worker => {
      await this.#retire(worker, patience)
    }))
    process.off('exit', this.#killAll)
  }

  #add (edition: Edition): WorkerProcess {
    const worker = new WorkerProcess(edition, this.#sentBack)
    this.#workers.add(worker)
    worker.ended.then(() => {
      this.#listener.onEnded(worker)
    }, () => {})
    return worker
  }

  #of (edition: Edition): WorkerProcess[] {
    return [...this.#workers].filter(worker => worker.isOf(edition))
  }

  /** Ends the oldest that is of another edition; whether there was one. */
  async #retireOne (edition: Edition): Promise<boolean> {
    const old = [...this.#workers].find(worker => !worker.isOf(edition))
    if (old !== undefined) await this.#retire(old)
    return old !== undefined
  }

  #watch (worker: WorkerProcess): void {
    worker.ended.then(async ended => {
      if (!this.#workers.delete(worker) || this.#isOver) return
      this.#listener.onLost(worker.pid, ended)
      // Those that end as soon as they are there are not begun without end at full speed.
      const losses = ++this.#losses - this.#edition.count
      if (losses > 0) await pause(pauseAfter(losses))
      await this.#replace(firstPauseMs)
    }).catch(() => {})
  }

  async #replace (pauseMs: number): Promise<void> {
    // A roll may have put one there meanwhile.
    if (this.#isOver || this.#of(this.#edition).length >= this.#edition.count) return
    const worker = this.#add(this.#edition)
    try {
      await worker.ready
      this.#watch(worker)
    } catch (error) {
      await this.#retire(worker)
      if (this.#isOver) return
      this.#listener.onNotReplaced((error as Error).message)
      await pause(pauseMs)
      await this.#replace(Math.min(2 * pauseMs, longestPauseMs))
    }
  }

  async #retire (worker: WorkerProcess, patience?: Patience): Promise<void> {
    this.#workers.delete(worker)
    this.#leaving.add(worker)
    worker.stop(patience)
    const ended = await within(stopMs, worker.ended)
    if (ended === undefined) worker.kill()
    this.#leaving.delete(worker)
  }

  #tick (): void {
    this.#losses = Math.max(0, this.#losses - forgottenATick)
    for (const worker of this.all) if (worker.isStuckAfter(silentTicks)) worker.kill()
  }
}

function pauseAfter (losses: number): number {
  return Math.min(firstPauseMs * 2 ** losses, longestPauseMs)
}

import { type Headers, type Position, readPosition, type StampedPosition } from '../api/position.js'
import { type Answer } from '../api/answer.js'
import { whenLate } from '../within.js'
import { Budget, NoTurn, type Turn } from './budget.js'
import { Connections, type Reach } from './connections.js'
import { Foresight } from './foresight.js'
import { NodeFailure, saysNothing } from './node-failure.js'
import { type Question } from './question.js'
import { type Reception } from './reception.js'
import { type Recall } from './taking-back.js'

/** One full node of the configuration. */
export interface NodeOptions extends Reach {
  readonly name: string
  /** What it sends is history whatever its gateway says of caching. */
  readonly ignoreCacheControl?: boolean
  /** A longer body is not gathered: its rest is handed over as it comes. */
  readonly maxGatheredBytes: number
  readonly requestsPerSecond?: number | null
  /** What time it is; left out where nobody's word on that is to be doubted. */
  readonly wallClockMs?: () => number
  /** By whom it is asked of itself, if not by this process; who asks counts it. */
  readonly probes?: Transport
}

/** What carries a question to a node and brings what comes of it. */
export interface Transport {
  ask(
    question: Question,
    maxBytes: number,
    turn: Turn | undefined,
    onOver: () => void
  ): Pick<Reception, 'received' | 'giveUp'>
}

/** Told of everything that was asked of a node and how it ended. */
export interface NodeTally {
  asked(node: string, endpoint: string, status: string, seconds: number): void
}

/** One full node: its connections, how much may be asked of it, and what it last said of itself. */
export class LedgerNode {
  readonly name: string
  /** How much may be asked of it, and how much of that is. */
  readonly budget: Budget
  readonly #options: NodeOptions
  readonly #tally: NodeTally
  readonly #connections: Connections
  readonly #foresight: Foresight
  #release: string | undefined
  #position: Position | undefined
  #up = false
  #answeredAt = -Infinity

  constructor (options: NodeOptions, tally: NodeTally) {
    this.name = options.name
    this.#options = options
    this.#tally = tally
    this.#connections = new Connections(options)
    this.#foresight = new Foresight(options.now, options.wallClockMs ?? (() => Infinity))
    this.budget = new Budget({ ...options, requestsPerSecond: options.requestsPerSecond ?? null })
  }

  /** Whether it gave the last thing asked of it an answer as a node does. */
  get up (): boolean {
    return this.#up
  }

  /** The last position it stamped on an answer. */
  get position (): Position | undefined {
    return this.#position
  }

  /** The release it runs, as `GET /v1` last said. */
  get release (): string | undefined {
    return this.#release
  }

  /** Takes in the release that an index answer named. */
  runs (release: string): void {
    this.#release = release
  }

  /** How long it is waited for where no other node could be asked instead. */
  get timeoutMs (): number {
    return this.#options.timeoutMs
  }

  /**
   * Asks once and gathers the answer, unless it is too large; the signal takes the question back. Throws a NodeFailure
   * when no answer came.
   */
  ask (question: Question, timeoutMs = this.#options.timeoutMs, signal?: Recall): Promise<Answer> {
    return this.#ask(question, this.#options.maxGatheredBytes, timeoutMs, signal)
  }

  /** Asks it of itself, by whoever does so for all processes. */
  probe (question: Question, timeoutMs: number): Promise<Answer> {
    return this.#ask(question, this.#options.maxGatheredBytes, timeoutMs, undefined, this.#options.probes)
  }

  /** Ends when what it was asked has been answered. */
  async retire (): Promise<void> {
    await this.budget.idle()
    await this.#connections.retire()
  }

  /** The same with the body handed over as it comes. */
  pass (question: Question, signal: Recall, timeoutMs = this.#options.timeoutMs): Promise<Answer> {
    return this.#ask(question, 0, timeoutMs, signal)
  }

  async #ask (
    question: Question,
    maxBytes: number,
    timeoutMs: number,
    signal: Recall | undefined,
    by: Transport = this.#connections
  ): Promise<Answer> {
    const { now } = this.#options
    const { client, isOwn = false } = question
    const started = now()
    const tell = (status: string): void => {
      if (by === this.#connections) this.#tally.asked(this.name, question.endpoint, status, (now() - started) / 1000)
    }
    let leftMs = timeoutMs
    try {
      if (signal?.aborted === true) throw signal.reason
      let turn = by === this.#connections ? this.budget.take(isOwn) : undefined
      if (turn === undefined && by === this.#connections) {
        turn = await this.budget.wait({ client, isOwn, timeoutMs, signal })
        leftMs -= now() - started
      }
      const answer = await this.#askOnce(question, maxBytes, leftMs, signal, by, turn)
      this.#up = answer.stamped !== undefined || answer.status < 500
      this.#answeredAt = now()
      this.#position = answer.stamped?.position ?? this.#position
      tell(String(answer.status))
      return answer
    } catch (error) {
      const failure = this.#failureOf(error, leftMs, timeoutMs)
      // Who takes a question back says nothing of the node, nor does one that was lost in silence before another was
      // answered, or never sent.
      const isOld = failure.reason === 'timeout' && started < this.#answeredAt
      if (signal?.aborted !== true && !isOld && !saysNothing(failure)) this.#up = false
      tell(failure.reason)
      throw failure
    }
  }

  #positionIn (headers: Headers): StampedPosition | undefined {
    const stamped = readPosition(headers)
    return stamped !== undefined && this.#foresight.believes(stamped.position.head.timestampUsec) ? stamped : undefined
  }

  // A node that was left with less than half of the time, since others came first, has not failed.
  #failureOf (error: unknown, leftMs: number, timeoutMs: number): NodeFailure {
    const failure = NodeFailure.of(this.name, error)
    return failure.reason === 'timeout' && leftMs < timeoutMs / 2
      ? NodeFailure.of(this.name, new NoTurn('too late'))
      : failure
  }

  /** Ends every connection; whoever waits for an answer gets a failure. */
  async close (): Promise<void> {
    this.budget.close()
    await this.#connections.close()
  }

  async #askOnce (
    question: Question,
    maxBytes: number,
    timeoutMs: number,
    signal: Recall | undefined,
    by: Transport,
    turn: Turn | undefined
  ): Promise<Answer> {
    // Taken before the question leaves: an upgrade in between makes an entry look old, never look new.
    const release = this.#release
    const takeBack = (): void => {
      if (signal !== undefined) reception.giveUp(signal.reason)
    }
    // A body that is handed on as it comes may take as long as its reader does; the turn is its until it ends.
    const reception = by.ask(question, maxBytes, turn, () => {
      signal?.removeEventListener('abort', takeBack)
    })
    const inTime = whenLate(timeoutMs, () => {
      reception.giveUp(new DOMException('no answer in time', 'TimeoutError'))
      // Who says nothing any more may have been started anew.
      this.#options.onLost?.()
    })
    signal?.addEventListener('abort', takeBack, { once: true })
    if (signal?.aborted === true) takeBack()
    try {
      const { status, headers, body, rest } = await reception.received
      // Its bytes would be taken for the body, though they are not what the node means by them (RFC 9112, section 7).
      if (isTransferCoded(headers)) {
        rest?.destroy()
        throw new NodeFailure(this.name, 'garbage', undefined)
      }
      return {
        status,
        headers,
        body,
        rest,
        isFramed: isFramed(headers),
        stamped: this.#positionIn(headers),
        release,
        isVetoVoid: this.#options.ignoreCacheControl
      }
    } finally {
      inTime()
    }
  }
}

// Chunks alone are undone on the way; no coding of that kind was asked for (TE).
function isTransferCoded ({ 'transfer-encoding': coding }: Headers): boolean {
  return coding !== undefined && String(coding).trim().toLowerCase() !== 'chunked'
}

function isFramed (headers: Headers): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

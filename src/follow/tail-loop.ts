import { TokenBucket, type TokenRate } from '../token-bucket.js'
import { type Follower, type TailDemandSink } from './follower.js'
import { type TailReader, type TailReading, type TailResult } from './tail-reader.js'
import { type FollowedHead } from './ledger-knowledge.js'
import { type TouchAllReason } from './transaction-digest.js'

/** Receives what a tail loop reads. */
export interface TailSubscriber extends Pick<Follower, 'head' | 'state' | 'apply' | 'setState'> {
  /** Forgets everything; `isWrong` if the transactions read before may be of another chain. */
  clear(isWrong: boolean): void
}

/** Counters of the tail. */
export interface TailMetrics {
  read(result: TailResult, versions: number): void
  touchedAll(reason: TouchAllReason): void
}

/** Turn of a process at the tail that several read together. */
export type TailTurn =
  /**
   * Other process has read this; the age of the reading counts from `sentAtMs`, at or before the request to the
   * upstream.
   */
  | { readonly kind: 'read', readonly reading: TailReading, readonly sentAtMs: number }
  /** Another process reads, and has read nothing new yet. */
  | { readonly kind: 'wait' }
  /** This process reads for all, and then calls `end` with the reading. */
  | { readonly kind: 'lead', readonly end: (reading: TailReading) => void }
  /** This process reads for itself, because the others are out of reach or not trusted. */
  | { readonly kind: 'alone' }
  /** Check in another process has found that what all have read is wrong. */
  | { readonly kind: 'stopped', readonly reason: string }

/** Tail that one process of several reads for all. */
export interface SharedTail {
  /** Returns what others have read after a head, or which process reads on. */
  next(head: FollowedHead | undefined): Promise<TailTurn>
  /** Lets another process read, because this process needs the tail no longer. */
  release(): void
  /** Takes no further part in the shared reading. */
  close(): void
}

/** Parts of a tail loop. */
export interface TailLoopOptions {
  readonly reader: Pick<TailReader, 'readHead' | 'readAfter'>
  /** Other processes that read the same tail; undefined without any. */
  readonly shared?: SharedTail | undefined
  readonly follower: TailSubscriber
  readonly now: () => number
  readonly maxAgeMs: number
  readonly metrics: TailMetrics
  /** Resolves when the chain of a tail that does not continue is known (law 7: chains never mix). */
  readonly onMismatch: (reading: TailReading) => Promise<void>
}

// Bounds readings: `readingShare` per `maxAgeMs` on average, `maxTokens` at once.
const readingShare = 1.5
const maxTokens = 2
// Cadence if `maxAgeMs` is 0, since following that only observes needs no freshness.
const defaultCadenceMs = 250
const idleMs = 60_000
const accountMs = 60_000
const maxBackoffMs = 5000
const unsupportedRetryMs = 60_000
// Asks what others have read at most this often, on average and at once.
const turnRate: TokenRate = { interval: 15, burst: 4 }
// While the head is too old and another process reads, asks again after this share of the allowed age, so that a lost
// message or a dead reader delays it little.
const waitShare = 0.1
const minWaitMs = 10
const maxWaitMs = 100
// Below this many transactions a list of changes may be empty by chance.
const minUnlisted = 20

/** Reads the tail at a cadence while latest reads come, within a budget of readings. */
export class TailLoop implements TailDemandSink {
  readonly #options: TailLoopOptions
  readonly #cadenceMs: number
  readonly #bucket = new TokenBucket()
  readonly #rate: TokenRate
  readonly #turns = new TokenBucket()
  #isRunning = false
  #isClosed = false
  // Number that rises with every reset, so that a reading begun before the reset is dropped.
  #resets = 0
  #resume: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #durationMs = 0
  #deviationMs = 0
  #failures = 0
  // Time until which a reading that failed is not repeated.
  #retryAtMs = -Infinity
  #isAtEnd = false
  // Time from which the age of the head counts while another process reads the tail.
  #waitsFromMs: number | undefined
  #unlisted = 0
  #beginReason: 'start' | 'gap' | 'mismatch' | 'reset' = 'start'
  #lastReadAtMs = -Infinity
  #accountedAtMs = 0
  #readings = 0
  #saved = 0

  constructor (options: TailLoopOptions) {
    this.#options = options
    this.#cadenceMs = options.maxAgeMs === 0 ? defaultCadenceMs : options.maxAgeMs
    this.#rate = { interval: this.#cadenceMs / readingShare, burst: maxTokens }
  }

  recordRead (): void {
    this.#lastReadAtMs = this.#options.now()
    if (this.#isRunning || this.#isClosed || this.#options.follower.state === 'stopped') return
    this.#isRunning = true
    this.#run().catch((error: unknown) => this.#options.follower.setState('interrupted', String(error))).finally(() => {
      this.#isRunning = false
    })
  }

  recordSaved (reads = 1): void {
    this.#saved += reads
  }

  wake (): void {
    this.#resume?.()
  }

  /** Forgets the chain: a reading that has begun is dropped, and the tail begins at a new head. */
  reset (reason: 'reset' | 'mismatch' = 'reset'): void {
    this.#resets++
    this.#beginReason = reason
    this.#options.follower.clear(reason === 'mismatch')
  }

  close (): void {
    this.#isClosed = true
    this.#options.shared?.close()
    clearTimeout(this.#timer)
    this.#resume?.()
  }

  async #run (): Promise<void> {
    const { now, follower, shared } = this.#options
    this.#account(now())
    follower.setState('starting', undefined)
    while (!this.#isClosed && follower.state !== 'stopped') {
      const startedAtMs = now()
      // Waits again if a timer fired early or a read woke the loop, so that the budget holds.
      const budgetWaitMs = await this.#takeTurn(startedAtMs)
      if (budgetWaitMs > 0) {
        await this.#pause(budgetWaitMs)
        continue
      }
      const reason = this.#suspensionReason(now())
      if (reason !== undefined) {
        shared?.release()
        follower.setState('suspended', reason)
        break
      }
      const pauseMs = this.#pauseMs(startedAtMs)
      if (pauseMs > 0) await this.#pause(pauseMs)
    }
  }

  /** Reads the tail, or takes what another process has read; returns the time to wait if the budget allows none. */
  async #takeTurn (startedAtMs: number): Promise<number> {
    const { shared, follower } = this.#options
    const resets = this.#resets
    let turn: TailTurn = { kind: 'alone' }
    if (shared !== undefined) {
      const turnWaitMs = this.#turns.take(startedAtMs, turnRate)
      if (turnWaitMs > 0) return turnWaitMs
      turn = await shared.next(follower.head)
      if (resets !== this.#resets || this.#isClosed) return 0
    }
    switch (turn.kind) {
      case 'stopped':
        follower.setState('stopped', turn.reason)
        return 0
      case 'wait':
        this.#waitsFromMs ??= -Infinity
        this.#isAtEnd = true
        return 0
      case 'read':
        this.#waitsFromMs = turn.sentAtMs
        this.#isAtEnd = turn.reading.stamped !== undefined
        await this.#take(turn.reading, turn.sentAtMs)
        return 0
      case 'lead':
      case 'alone': {
        const sentAtMs = this.#options.now()
        // Messages of other processes end no backoff.
        if (shared !== undefined && turn.kind === 'alone' && sentAtMs < this.#retryAtMs) {
          return this.#retryAtMs - sentAtMs
        }
        const budgetWaitMs = this.#bucket.take(sentAtMs, this.#rate)
        if (budgetWaitMs > 0) return budgetWaitMs
        this.#waitsFromMs = undefined
        const reading = await this.#read()
        this.#isAtEnd = reading.stamped !== undefined || reading.result === 'empty'
        if (resets !== this.#resets || this.#isClosed) return 0
        // Withholds a reading that its own check has found wrong.
        if (turn.kind === 'lead' && follower.state !== 'stopped') turn.end(reading)
        if (reading.result === 'ok' || reading.result === 'empty') this.#learnDuration(this.#options.now() - sentAtMs)
        await this.#take(reading, sentAtMs)
        if (reading.result === 'failed') this.#retryAtMs = this.#options.now() + this.#pauseMs(startedAtMs)
        return 0
      }
    }
  }

  async #read (): Promise<TailReading> {
    const { reader, follower: { head }, metrics } = this.#options
    const reading = await (head === undefined ? reader.readHead() : reader.readAfter(head)).catch(toFailure)
    this.#readings++
    metrics.read(reading.result, head === undefined ? 0 : reading.transactions.length)
    return reading
  }

  async #take (reading: TailReading, sentAtMs: number): Promise<void> {
    const { follower } = this.#options
    switch (reading.result) {
      case 'ok':
      case 'empty':
        this.#failures = 0
        return this.#apply(reading, sentAtMs)
      case 'failed':
        this.#failures++
        return follower.setState(reading.isUnsupported === true ? 'unsupported' : 'interrupted', reading.reason)
      case 'gap':
        this.#beginReason = 'gap'
        return follower.clear(false)
      case 'mismatch':
        this.#beginReason = 'mismatch'
        follower.clear(true)
        return await this.#options.onMismatch(reading)
    }
  }

  #apply ({ transactions, stamped }: TailReading, sentAtMs: number): void {
    const { follower, metrics } = this.#options
    const begins = follower.head === undefined
    if (begins) {
      metrics.touchedAll(this.#beginReason)
      this.#beginReason = 'start'
    } else {
      for (const { touched, touchesAll } of transactions) {
        if (touchesAll !== undefined) metrics.touchedAll(touchesAll)
        // A node without write sets lists nothing but the hash for every transaction that has changes.
        if (touched.length > 1) this.#unlisted = 0
        else if (touchesAll === 'unlisted' || touchesAll === 'unreadable') this.#unlisted++
      }
    }
    if (this.#unlisted >= minUnlisted) {
      follower.clear(false)
      follower.setState('unsupported', 'the upstream lists no changes of its transactions')
      this.#unlisted = 0
      return
    }
    follower.apply({ begins, transactions, stamped, sentAtMs })
  }

  /** Returns why reading the tail does not pay; undefined while it does. */
  #suspensionReason (nowMs: number): string | undefined {
    if (nowMs - this.#lastReadAtMs > idleMs) return 'no latest read for 60 s'
    if (nowMs - this.#accountedAtMs < accountMs) return undefined
    const reason = this.#readings > this.#saved
      ? `${this.#readings} tail reads saved ${this.#saved} reads in 60 s`
      : undefined
    this.#account(nowMs)
    return reason
  }

  #account (nowMs: number): void {
    this.#accountedAtMs = nowMs
    this.#readings = this.#saved = 0
  }

  /** Returns the time until the next reading, so that a head is replaced before it is too old. */
  #pauseMs (startedAtMs: number): number {
    const { follower, now } = this.#options
    if (follower.state === 'unsupported') return unsupportedRetryMs
    if (this.#waitsFromMs !== undefined && this.#isAtEnd) {
      const retryMs = Math.min(maxWaitMs, Math.max(minWaitMs, waitShare * this.#cadenceMs))
      return Math.max(retryMs, this.#waitsFromMs + this.#cadenceMs - now())
    }
    // Begins at a new head, or goes on at once if the end was not reached.
    if (this.#failures === 0 && !this.#isAtEnd) return 0
    if (this.#failures > 0) return Math.min(maxBackoffMs, this.#cadenceMs * 2 ** Math.min(this.#failures, 10))
    const aheadMs = this.#durationMs + 4 * this.#deviationMs + 10
    const periodMs = Math.max(this.#cadenceMs / readingShare, this.#cadenceMs - aheadMs)
    return Math.max(0, startedAtMs + periodMs - now())
  }

  /** Smooths duration and deviation as TCP does for its retransmission timeout (RFC 6298, section 2). */
  #learnDuration (durationMs: number): void {
    const differenceMs = durationMs - this.#durationMs
    this.#deviationMs += (Math.abs(differenceMs) - this.#deviationMs) / 4
    this.#durationMs += differenceMs / 8
  }

  async #pause (ms: number): Promise<void> {
    await new Promise<void>(resolve => {
      this.#resume = () => {
        this.#resume = undefined
        clearTimeout(this.#timer)
        resolve()
      }
      this.#timer = setTimeout(this.#resume, ms).unref()
    })
  }
}

function toFailure (error: unknown): TailReading {
  return { result: 'failed', transactions: [], stamped: undefined, reason: String(error) }
}

import { type ResponsePosition } from '../api/position.js'
import { type StateDigest } from '../api/state-key.js'
import { withTimeout } from '../with-timeout.js'
import { type FollowedHead, type KnownTransaction, LedgerKnowledge, type Validity } from './ledger-knowledge.js'

/** States of following; reads are served from the followed head in `following` alone. */
export const followStates = [
  'idle',
  'starting',
  'following',
  'suspended',
  'interrupted',
  'unsupported',
  'stopped'
] as const

/** State of following. */
export type FollowState = typeof followStates[number]

/** Results of a wait for a transaction. */
export const transactionWaitResults = ['committed', 'timeout', 'left'] as const

/** Result of a wait for a transaction. */
export type TransactionWaitResult = typeof transactionWaitResults[number]

/**
 * Transactions after a head, read in one go; `begins` drops all earlier knowledge, and starts at the last transaction.
 */
export interface FollowUpdate {
  readonly begins: boolean
  readonly transactions: readonly KnownTransaction[]
  /** Position of the last transaction; undefined if the end of the tail was not reached. */
  readonly stamped: ResponsePosition | undefined
  /** Time at which the request was sent whose response names the position. */
  readonly sentAtMs: number
}

/** Message of the process that reads the tail to the other processes of this varve. */
export type FollowEvent =
  | { readonly kind: 'update', readonly update: FollowUpdate }
  | { readonly kind: 'state', readonly state: Exclude<FollowState, 'following'>, readonly reason: string | undefined }
  /** Loss of all knowledge; `isWrong` if the transactions read before may be of another chain. */
  | { readonly kind: 'clear', readonly isWrong: boolean }

/** Demand of one process for the tail that another process reads. */
export interface TailDemand {
  /** Reads that needed no upstream request since the last demand. */
  readonly saved: number
  /** True if a read waits for the tail. */
  readonly isUrgent: boolean
}

/** Receives the demand for the tail, which this process or another one reads. */
export interface TailDemandSink {
  /** Notes a latest read that a followed head could serve; a suspended tail resumes. */
  recordRead(): void
  /** Notes a read that needed no upstream request, because the tail was read. */
  recordSaved(): void
  /** Reads the tail as soon as its budget allows. */
  wake(): void
}

/** Parts of a follower. */
export interface FollowerOptions {
  readonly now: () => number
  /** Oldest age of a followed head at the arrival of a read that it serves; 0 forwards every read. */
  readonly maxAgeMs: number
  /** True if latest reads are served at the followed head; false only observes. */
  readonly isServing: boolean
  /** Lowest version that a followed head must have to serve reads, because a client has seen this version. */
  readonly servedVersion: () => bigint | undefined
  /** Runs with the followed head when it becomes the served head, and with undefined when it no longer is. */
  readonly onServedHead: (stamped: ResponsePosition | undefined) => void
  readonly onState: (state: FollowState, reason: string | undefined) => void
}

// Limits the wait of a read for the tail; the read then goes to an upstream, as without following. If the head grew too
// old earlier, the wait counts from then, so a hanging upstream delays only the reads of half a second.
const minWaitMs = 500
// Waits for the reading under way and the next one: reads forwarded earlier would overload a busy process further.
const readingsToWait = 3
const maxWaitMs = 2000
// Time for which a node holds a read of a transaction: a tail that is read less often would answer later than a node.
const maxFindingMs = 1000
// Bounds awaited hashes, because each reading of the tail is searched for all of them (law 10: nothing grows without
// bound).
const maxFinding = 10_000

/**
 * Head up to which every transaction was read, and the knowledge from these transactions. In `following`, latest reads
 * are served at this head (law 12: unknown means changed).
 */
export class Follower {
  readonly #options: FollowerOptions
  readonly #knowledge: LedgerKnowledge
  readonly #waiting = new Set<() => void>()
  readonly #finding = new Set<() => void>()
  #demandSink: TailDemandSink | undefined
  #state: FollowState = 'idle'
  #reason: string | undefined
  #sentAtMs = -Infinity
  #readingMs = 0

  constructor (options: FollowerOptions, knowledge = new LedgerKnowledge()) {
    this.#options = options
    this.#knowledge = knowledge
  }

  /** Sets what reads the tail. */
  setDemandSink (sink: TailDemandSink): void {
    this.#demandSink = sink
  }

  get state (): FollowState {
    return this.#state
  }

  /** Reason of the state, as a readable sentence. */
  get reason (): string | undefined {
    return this.#reason
  }

  /** Last version that was read; undefined while nothing is known. */
  get head (): FollowedHead | undefined {
    return this.#knowledge.head
  }

  /** Position of the followed head, whatever its age. */
  get confirmed (): ResponsePosition | undefined {
    return this.#knowledge.confirmed
  }

  /** False if following only observes, so that nothing is served at the followed head. */
  get isServing (): boolean {
    return this.#options.isServing
  }

  /** True if intervals may answer reads: following serves, and no check has found it wrong. */
  get isTrusted (): boolean {
    return this.isServing && this.#state !== 'stopped'
  }

  /** Head at which a follower that only observes would serve; undefined while it does not follow. */
  get observedHead (): ResponsePosition | undefined {
    return this.isServing || this.#state !== 'following' ? undefined : this.confirmed
  }

  /** Returns the head that may serve a latest read which arrived at a time; undefined if there is none. */
  headFor (arrivedAtMs: number): ResponsePosition | undefined {
    const { maxAgeMs, isServing, servedVersion } = this.#options
    if (!isServing || maxAgeMs === 0 || this.#state !== 'following') return undefined
    if (this.#sentAtMs < arrivedAtMs - maxAgeMs) return undefined
    const { confirmed } = this.#knowledge
    const served = servedVersion()
    return confirmed === undefined || (served !== undefined && confirmed.position.head.version < served)
      ? undefined
      : confirmed
  }

  /**
   * Waits, within a limit, until the head may serve a read that arrived at a time; returns at once if nothing follows.
   */
  async bringUp (arrivedAtMs: number): Promise<void> {
    this.#demandSink?.recordRead()
    const { now, maxAgeMs, isServing } = this.#options
    if (!isServing || maxAgeMs === 0) return
    const waitsFromMs = Math.min(arrivedAtMs, this.#sentAtMs + maxAgeMs)
    const waitMs = Math.min(maxWaitMs, Math.max(minWaitMs, readingsToWait * this.#readingMs))
    while (this.#state === 'following' && this.headFor(arrivedAtMs) === undefined) {
      const leftMs = waitsFromMs + waitMs - now()
      if (leftMs <= 0 || !await this.#nextUpdate(leftMs)) return
    }
  }

  /** Notes a read that was served without an upstream request. */
  recordSaved (): void {
    this.#demandSink?.recordRead()
    this.#demandSink?.recordSaved()
  }

  /** Reads the tail early, because a client waits for a version or has seen one above the head. */
  catchUp (): void {
    if (this.#state === 'following') this.#demandSink?.wake()
  }

  /** True if the tail is read often enough to answer for nodes that look for a transaction. */
  get findsTransactions (): boolean {
    return this.isServing && this.#state === 'following' && this.#options.maxAgeMs <= maxFindingMs
  }

  /**
   * Waits, within a limit, until the tail has a transaction; returns its version, undefined if none was read before the
   * client left.
   */
  async waitForTransaction (
    hash: StateDigest,
    timeoutMs: number,
    clientGone: AbortSignal
  ): Promise<bigint | undefined> {
    if (this.#finding.size >= maxFinding) return undefined
    let find = (): void => {}
    const found = new Promise<bigint | undefined>(resolve => {
      find = () => {
        const version = this.#knowledge.versionOf(hash)
        if (version !== undefined || !this.findsTransactions || clientGone.aborted) resolve(version)
      }
    })
    this.#finding.add(find)
    clientGone.addEventListener('abort', find, { once: true })
    find()
    this.#demandSink?.recordRead()
    this.#demandSink?.wake()
    const version = await withTimeout(timeoutMs, found)
    this.#finding.delete(find)
    if (version !== undefined) this.recordSaved()
    return version
  }

  /** Compares a response that was read at a version with one that would be read at another. */
  validityAt (at: bigint, readAt: bigint, dependencies: readonly StateDigest[]): Validity {
    return this.#knowledge.validityAt(at, readAt, dependencies)
  }

  /** Returns the lowest version from which a response that was read at a version is known to be the same. */
  unchangedSince (readAt: bigint, dependencies: readonly StateDigest[]): bigint {
    return this.isTrusted ? this.#knowledge.unchangedSince(readAt, dependencies) : readAt
  }

  /** Takes in what was read; a gap in updates loses knowledge (law 12: unknown means changed). */
  apply ({ begins, transactions, stamped, sentAtMs }: FollowUpdate): void {
    if (this.#state === 'stopped') return
    const last = transactions.at(-1)
    const [first] = transactions
    const follows = first === undefined || first.version === (this.#knowledge.head?.version ?? -2n) + 1n
    if (begins || !follows) {
      if (last === undefined) return
      this.#knowledge.begin(last)
    } else for (const transaction of transactions) this.#knowledge.append(transaction)
    if (stamped !== undefined && stamped.position.head.version === this.#knowledge.head?.version) {
      this.#knowledge.confirm(stamped)
      this.#sentAtMs = sentAtMs
      this.#readingMs = this.#options.now() - sentAtMs
      this.#setState('following', undefined)
      if (this.#options.isServing) this.#options.onServedHead(stamped)
    }
    this.#notify()
  }

  /** Changes the state for another reason than a reading; `stopped` lasts until a reload or a restart. */
  setState (state: Exclude<FollowState, 'following'>, reason: string | undefined): void {
    if (this.#state === 'stopped') return
    // Clears knowledge that a check has shown to be wrong.
    if (state === 'stopped') this.#knowledge.clear()
    this.#setState(state, reason)
    this.#notify()
  }

  /** Forgets everything, because the chain may be another one, or because another configuration follows. */
  clear (): void {
    this.#knowledge.clear()
    this.#sentAtMs = -Infinity
    if (this.#state === 'following') this.setState('starting', undefined)
  }

  #setState (state: FollowState, reason: string | undefined): void {
    const wasFollowing = this.#state === 'following'
    this.#reason = reason
    if (state === this.#state) return
    this.#state = state
    if (wasFollowing && this.#options.isServing) this.#options.onServedHead(undefined)
    this.#options.onState(state, reason)
  }

  #notify (): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const resume of waiting) resume()
    for (const find of this.#finding) find()
  }

  /** Resolves with true after the next update, or with false after a time limit. */
  async #nextUpdate (timeoutMs: number): Promise<boolean> {
    let resume = (): void => {}
    const updated = new Promise<true>(resolve => {
      resume = () => resolve(true)
    })
    this.#waiting.add(resume)
    this.#demandSink?.wake()
    const isUpdated = await withTimeout(timeoutMs, updated) ?? false
    this.#waiting.delete(resume)
    return isUpdated
  }
}

// Limits demands, since the reading process needs to know only that latest reads still come.
const demandEveryMs = 1000
const urgentEveryMs = 20

/** Sends the demand of this process to the process that reads the tail. */
export class TailDemandSender implements TailDemandSink {
  readonly #send: (demand: TailDemand) => void
  readonly #now: () => number
  #saved = 0
  #sentAtMs = -Infinity
  #urgentAtMs = -Infinity

  constructor (send: (demand: TailDemand) => void, now: () => number) {
    this.#send = send
    this.#now = now
  }

  recordRead (): void {
    if (this.#now() - this.#sentAtMs >= demandEveryMs) this.#demand(false)
  }

  recordSaved (): void {
    this.#saved++
  }

  wake (): void {
    if (this.#now() - this.#urgentAtMs < urgentEveryMs) return
    this.#urgentAtMs = this.#now()
    this.#demand(true)
  }

  #demand (isUrgent: boolean): void {
    const saved = this.#saved
    this.#saved = 0
    this.#sentAtMs = this.#now()
    this.#send({ saved, isUrgent })
  }
}

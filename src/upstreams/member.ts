import { type StampedPosition } from '../api/position.js'
import { type Answer, speaksOfNode } from '../api/answer.js'
import { within } from '../within.js'
import { Health } from './health.js'
import { NodeFailure } from './node-failure.js'
import { type LedgerNode } from './node.js'
import { type Question } from './question.js'
import { type Choice } from './route.js'
import { Standing } from './standing.js'
import { type Recall } from './taking-back.js'
import { Fenced, type FenceReason, type Welcoming } from './welcome.js'

// One that ends every connection by itself is not compared at every answer.
const comparedEveryMs = 250

/** What a member is made of. */
export interface MemberOptions extends Welcoming {
  readonly now: () => number
  /** Whether others can be asked while it is compared. */
  readonly hasPeers: () => boolean
}

/** One node of the fleet: how it answers, where it stands, and whether it is believed. */
export class Member implements Choice {
  readonly node: LedgerNode
  readonly health: Health
  readonly standing: Standing
  readonly #options: MemberOptions
  #isBelieved = false
  #fence: { readonly reason: FenceReason, readonly chainId: number } | undefined
  #welcoming: Promise<void> | undefined
  #doubtedAt = -Infinity
  #wasLost = false
  #wasAway = true
  #isMute = false

  constructor (node: LedgerNode, options: MemberOptions) {
    this.node = node
    this.#options = options
    this.health = new Health(options.now)
    this.standing = new Standing(options.now)
  }

  /** Whether what it says was compared since it was last away. */
  get isBelieved (): boolean {
    return this.#isBelieved
  }

  get isFull (): boolean {
    return this.node.budget.isFull
  }

  /** From where to where its history goes; undefined where it has said nothing yet, or nothing that counts. */
  get window (): Choice['window'] {
    return this.#fence === undefined ? this.standing.window : undefined
  }

  /** Why it is not asked for data; undefined where it is. */
  get fence (): FenceReason | undefined {
    return this.#fence?.reason
  }

  /** The chain that it serves, where it is not asked for data. */
  get fencedChainId (): number | undefined {
    return this.#fence?.chainId
  }

  /** Whether it was seen to be of the chain that is served. */
  get isOfChain (): boolean {
    return this.standing.stamped !== undefined && this.#fence === undefined
  }

  /** Whether it is asked for data and answers as a node does. */
  get isUp (): boolean {
    return this.health.isUp && !this.#isMute && this.#fence === undefined
  }

  /** Whether nothing was ever heard of it, good or bad. */
  get isUnheard (): boolean {
    return !this.health.isUp && !this.#isMute && this.health.lastFailure === undefined
  }

  /** Asks it; what it says is believed only after it was compared, and counts as nothing from behind a fence. */
  async ask (question: Question, timeoutMs = this.node.timeoutMs, signal?: Recall): Promise<Answer> {
    return this.#proven(await this.#believed(this.node.ask(question, timeoutMs, signal), timeoutMs, true))
  }

  /** The same with the body handed over as it comes. */
  async pass (question: Question, signal: AbortSignal, timeoutMs = this.node.timeoutMs): Promise<Answer> {
    return this.#proven(await this.#believed(this.node.pass(question, signal, timeoutMs), timeoutMs))
  }

  /** Asks it of itself, which it may answer without a word on where it stands. */
  async probe (question: Question, timeoutMs: number): Promise<Answer> {
    return await this.#believed(this.node.probe(question, timeoutMs), timeoutMs)
  }

  /** It was asked where it stands, and has answered something else. */
  isSilent (): void {
    this.#isMute = true
  }

  /** Compares it though nothing speaks against it; what cannot be told now is looked at another time. */
  async recheck (): Promise<void> {
    const { stamped } = this.standing
    if (stamped === undefined || !this.#isBelieved || this.#welcoming !== undefined) return
    if (!await this.#options.recognises(stamped).catch(() => true)) this.#isBelieved = false
  }

  /** It may be of another chain by now: it is compared before it is believed any further. */
  doubt (): void {
    this.#isBelieved = false
  }

  /** The chain that is served is another one now: nothing that it has said of itself counts any more. */
  forget (chainId: number | undefined): void {
    // What was another chain may be the one that is served now; what bears another name is not.
    if (this.#fence?.chainId === chainId) this.#fence = undefined
    this.#isBelieved = false
    this.standing.forget()
  }

  /**
   * A connection was lost: it may have been started anew, with another chain, between two questions. Whether it is
   * doubted from now on.
   */
  lost (): boolean {
    this.#wasLost = true
    if (this.#options.hasPeers()) this.#doubtWhoWasLost()
    return !this.#isBelieved
  }

  async #believed (asked: Promise<Answer>, timeoutMs: number, isRead = false): Promise<Answer> {
    const { now } = this.#options
    const started = now()
    let answer: Answer
    try {
      answer = await asked
      if (!speaksOfNode(answer)) this.health.took(now() - started, isRead)
    } catch (error) {
      // What was waited for in vain is what it costs to ask it.
      if (error instanceof NodeFailure && (error.reason === 'timeout' || (isRead && error.reason === 'taken_back'))) {
        this.health.tookLonger(now() - started, isRead)
      }
      throw error
    } finally {
      this.#isBelieved &&= this.node.up
      this.#wasAway ||= !this.node.up
    }
    try {
      if (answer.stamped !== undefined) {
        if (this.#isToBeCompared(answer.stamped)) await this.#compare(answer.stamped, timeoutMs - (now() - started))
        this.#learn(answer.stamped)
      }
      if (this.#fence !== undefined) throw new Fenced(`${this.node.name}: ${this.#fence.reason}`)
      return answer
    } catch (error) {
      answer.rest?.destroy()
      throw error
    }
  }

  // What bears no position, of a node that is still to be compared, may be of any chain.
  #proven (answer: Answer): Answer {
    if (this.#isBelieved || answer.stamped !== undefined || !this.#options.hasPeers() || speaksOfNode(answer)) {
      return answer
    }
    answer.rest?.destroy()
    throw new NodeFailure(this.node.name, 'garbage', undefined)
  }

  #isToBeCompared (stamped: StampedPosition): boolean {
    this.#doubtWhoWasLost()
    return !this.#isBelieved || this.#options.isStrange(stamped)
  }

  // Whoever asked waits no longer for the comparison than for the answer itself.
  async #compare (stamped: StampedPosition, leftMs: number): Promise<void> {
    this.#welcoming ??= this.#welcome(stamped).finally(() => {
      this.#welcoming = undefined
    })
    const done = await within(Math.max(0, leftMs), this.#welcoming.then(() => 'compared'))
    if (done === undefined) throw new NodeFailure(this.node.name, 'timeout', undefined)
  }

  #learn (stamped: StampedPosition): void {
    if (this.#fence !== undefined) return
    this.#isMute = false
    this.standing.learn(stamped)
  }

  #doubtWhoWasLost (): void {
    const now = this.#options.now()
    if (!this.#wasLost || now - this.#doubtedAt < comparedEveryMs) return
    this.#doubtedAt = now
    this.#isBelieved = false
  }

  async #welcome (stamped: StampedPosition): Promise<void> {
    this.#wasLost = false
    const reason = await this.#options.welcome(stamped, this.#wasAway)
    // Who is behind a fence is no nearer for having been looked at.
    this.#wasAway &&= reason !== undefined
    this.#fence = reason === undefined ? undefined : { reason, chainId: stamped.position.chainId }
    this.#isBelieved = reason === undefined
  }
}

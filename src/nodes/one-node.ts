import { type StampedPosition } from '../ledger/position.js'
import { type Answer } from '../reads/answer.js'
import { type LiveReleases } from './live-releases.js'
import { type LedgerNode } from './node.js'
import { type Question } from './question.js'

// One that ends every connection by itself is not compared at every answer.
const comparedEveryMs = 250

/** What the one node is asked through. */
export interface OneNodeOptions {
  readonly releases: LiveReleases
  readonly now: () => number
  /** Told of where a node stands that was away, before anything that it says is believed (law 7); whether it is to be. */
  readonly welcome: (stamped: StampedPosition) => Promise<boolean>
}

/** The one node that is asked, as the proxy sees it. */
export class OneNode {
  readonly #node: LedgerNode
  readonly #options: OneNodeOptions
  #isBelieved = false
  #welcoming: Promise<void> | undefined
  #furthest = -1n
  #doubtedAt = -Infinity
  #wasLost = false

  constructor (node: LedgerNode, options: OneNodeOptions) {
    this.#node = node
    this.#options = options
  }

  ask (question: Question): Promise<Answer> {
    return this.#believed(this.#node.ask(question))
  }

  pass (question: Question, signal: AbortSignal): Promise<Answer> {
    return this.#believed(this.#node.pass(question, signal))
  }

  /** Whether a version is gone from it, by the window that it last stamped on an answer (law 11). */
  lacks (version: bigint): boolean {
    return version < (this.#node.position?.oldest.version ?? 0n)
  }

  /** Whether it has ever got as far as a version: there is no sense in asking again a node that has not. */
  hasReached (version: bigint): boolean {
    return version <= this.#furthest
  }

  /** Whether no live node runs a release any more; while none is known to live, every entry counts as current (law 8). */
  isGone (release: string): boolean {
    return this.#node.up && this.#options.releases.isGone(release)
  }

  /** Takes in the release that an index answer named. */
  runs (release: string): void {
    this.#node.runs(release)
    this.#options.releases.saw(release)
  }

  /** What it says is believed again only when it has been compared. */
  doubt (): void {
    this.#isBelieved = false
  }

  /** A connection was lost: it may have been started anew, with another chain, between two questions. */
  lost (): void {
    this.#wasLost = true
  }

  async #believed (asked: Promise<Answer>): Promise<Answer> {
    let answer: Answer
    try {
      answer = await asked
    } finally {
      this.#isBelieved &&= this.#node.up
    }
    const { stamped } = answer
    if (stamped === undefined) return answer
    this.#doubtWhoWasLost()
    if (!this.#isBelieved) {
      this.#welcoming ??= this.#welcome(stamped).finally(() => { this.#welcoming = undefined })
      await this.#welcoming
    }
    const { version } = stamped.position.head
    if (version > this.#furthest) this.#furthest = version
    return answer
  }

  #doubtWhoWasLost (): void {
    const now = this.#options.now()
    if (!this.#wasLost || now - this.#doubtedAt < comparedEveryMs) return
    this.#doubtedAt = now
    this.doubt()
  }

  async #welcome (stamped: StampedPosition): Promise<void> {
    this.#wasLost = false
    this.#isBelieved = await this.#options.welcome(stamped)
  }
}

import { type Chain } from '../chain/tracker.js'
import { type Read } from '../api/read.js'

/**
 * What came of reading again what was answered from the cache: nobody could tell, or it was the same, or it was not, be
 * it for what a release or a node's settings explain.
 */
export const auditResults = ['equal', 'different', 'rendering', 'unavailable'] as const

/** One result of the closed list. */
export type AuditResult = typeof auditResults[number]

/** What was kept, and what a node says instead. */
export interface Difference {
  readonly result: 'different' | 'rendering'
  /** What was asked of the node; what a client had asked for, where that was of the moment. */
  readonly reads: readonly Read[]
  readonly chain: Chain
  /** The part of the answer that differs. */
  readonly where: string
  readonly node: string
  readonly kept: Buffer
  readonly said: Buffer
}

// Each may hold a whole answer, and what is looked at while clients wait takes their time.
const mostUnderWay = 8

/** Draws what is audited, keeps audits few, and tells what they find. */
export class Auditor {
  readonly differs: (difference: Difference) => void
  /** Asks a node where it stands and what it runs. */
  readonly looksAt: (node: string) => Promise<void>
  #underWay = 0
  #share = 0
  #left = Infinity

  constructor (differs: (difference: Difference) => void, looksAt: (node: string) => Promise<void>) {
    this.differs = differs
    this.looksAt = looksAt
  }

  /**
   * Whether this hit is drawn: one after each so many, about half as many more or fewer, so that a node has them evenly
   * and no rhythm of clients hides any.
   */
  draws (share: number): boolean {
    if (share !== this.#share) {
      this.#share = share
      this.#left = this.#gap
    }
    if (--this.#left > 0) return false
    this.#left = this.#gap
    return true
  }

  get #gap (): number {
    return Math.round((0.5 + Math.random()) / this.#share)
  }

  /** Begins one, unless there are enough. */
  async audit (begin: () => Promise<AuditResult>): Promise<AuditResult> {
    if (this.#underWay >= mostUnderWay) return 'unavailable'
    this.#underWay++
    try {
      return await begin()
    } finally {
      this.#underWay--
    }
  }
}

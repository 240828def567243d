import { whenLate } from '../within.js'
import { type Attempt } from './attempts.js'
import { HedgeBucket } from './hedge-bucket.js'
import { type Member } from './member.js'
import { type Recall, TakingBack } from './taking-back.js'

/**
 * What came of asking a second node beside one that takes its time: its answer was taken, that of the first was, or
 * neither was one to take.
 */
export const hedgeResults = ['won', 'lost', 'failed'] as const

/** One of the closed list. */
export type HedgeResult = typeof hedgeResults[number]

/** What hedging tells of its work, for the metrics. */
export interface HedgeTally {
  hedged(result: HedgeResult): void
}

/** What an operator allows of it. */
export interface HedgeOptions {
  readonly share: number
  readonly burst: number
  /** When a node is thought to take too long of which too little is known. */
  readonly afterMs: number
}

/** What asking a node came to: an attempt, or how it failed. */
export interface Tried {
  readonly member: Member
  readonly attempt: Attempt | undefined
  readonly error?: unknown
}

/** Puts the question to a node; the signal takes it back. */
export type AsksMember = (member: Member, signal: Recall) => Promise<Attempt>

/** Asks a second node where the first takes longer than it mostly does, and takes the first answer that is one. */
export class Hedges {
  readonly #bucket: HedgeBucket
  readonly #afterMs: number
  readonly #tally: HedgeTally

  constructor ({ share, burst, afterMs }: HedgeOptions, tally: HedgeTally) {
    this.#bucket = new HedgeBucket(share, burst)
    this.#afterMs = afterMs
    this.#tally = tally
  }

  /** A read has come. */
  earn (): void {
    this.#bucket.earn()
  }

  /**
   * What came of each that was asked, in that order; what is left of the other when one has given an answer to take is
   * taken back.
   */
  async ask (first: Member, findSecond: () => Member | undefined, asks: AsksMember): Promise<readonly Tried[]> {
    const mine = new Trial(first, asks)
    const second = await this.#whenSlow(mine, findSecond)
    if (second === undefined) return [await mine.came]
    const other = new Trial(second, asks)
    const sooner = await Promise.race([mine.came, other.came])
    const left = sooner.member === first ? other : mine
    if (isToTake(sooner)) {
      left.takeBack()
      this.#tally.hedged(left === mine ? 'won' : 'lost')
      return [sooner]
    }
    const later = await left.came
    this.#tally.hedged(isToTake(later) ? (left === other ? 'won' : 'lost') : 'failed')
    return [sooner, later]
  }

  // Looked at again while it takes ever longer, since what is granted is granted rather to those that hang than to
  // those that are a little late.
  async #whenSlow ({ member, came }: Trial, findSecond: () => Member | undefined): Promise<Member | undefined> {
    for (let waitMs = Math.max(1, member.health.reads.p95 ?? this.#afterMs);; waitMs *= 2) {
      if (!await isLate(came, waitMs)) return undefined
      // Where much is asked already, asking more would make all of it slower; what is waited for itself is no reason.
      const second = member.node.budget.isTight(1) ? undefined : findSecond()
      if (second !== undefined && this.#bucket.take()) return second
    }
  }
}

/** One node that is asked. */
class Trial {
  readonly member: Member
  /** Never fails. */
  readonly came: Promise<Tried>
  readonly #taking = new TakingBack()

  constructor (member: Member, asks: AsksMember) {
    this.member = member
    this.came = settled(member, asks(member, this.#taking))
  }

  /** Nobody waits for it any longer, nor reads what may have come in this very moment. */
  takeBack (): void {
    this.#taking.takeBack()
    this.came.then(({ attempt }) => {
      attempt?.answer.rest?.destroy()
    }, () => {})
  }
}

// Every read passes here, and a race of promises costs more than this.
async function isLate (came: Promise<Tried>, ms: number): Promise<boolean> {
  return await new Promise(resolve => {
    const inTime = whenLate(ms, () => {
      resolve(true)
    })
    came.then(() => {
      inTime()
      resolve(false)
    }, () => {})
  })
}

/** What asking comes to, which a failure is too. */
export async function settled (member: Member, asked: Promise<Attempt>): Promise<Tried> {
  try {
    return { member, attempt: await asked }
  } catch (error) {
    return { member, attempt: undefined, error }
  }
}

function isToTake ({ attempt }: Tried): boolean {
  return attempt !== undefined && attempt.flaw === undefined
}

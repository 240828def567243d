import { type StampedPosition } from '../api/position.js'
import { type Tracker } from './tracker.js'
import { type Answer } from '../api/answer.js'
import { NodeFailure, saysNothing } from '../upstreams/node-failure.js'
import { Fenced } from '../upstreams/welcome.js'
import { type Question, questionOfItself } from '../upstreams/question.js'

/** How often the head is asked for, and who is told when it is not answered. */
export interface HeadPollOptions {
  readonly pollMs: number
  readonly now: () => number
  /** Whether nothing was heard of the node for so long that it is to be asked. */
  readonly isDue: () => boolean
  readonly onState: (state: PollState) => void
  readonly onRelease: (release: string) => void
  /** The time has passed in which one is looked at, whether or not it was asked. */
  readonly onTick?: () => void
}

/** What a poll found, told when it changes. */
export type PollState = 'answered' | 'unanswered' | 'other_chain'

/** Where a node tells of itself. */
export const indexTarget = '/v1'

// A node that is mended is to be used again within two seconds, however seldom it is asked while it is well.
const mostMs = 1000

// A node that hangs is asked again beside what hangs, so that it is found mended whenever it is; so many times at once.
const mostUnderWay = 8

// The release is learned at least so often, whatever the traffic (law 8).
const releaseEveryMs = 15_000

/**
 * Keeps the position fresh in silence, and learns the node's release: traffic itself is the better source while there
 * is any.
 */
export class HeadPoll {
  readonly #ask: (question: Question) => Promise<Answer>
  readonly #tracker: Tracker
  readonly #options: HeadPollOptions
  #timer: NodeJS.Timeout | undefined
  #polledAt = -Infinity
  #answeredAt = -Infinity
  #underWay: Promise<void> | undefined
  #count = 0
  #isOver = false

  constructor (ask: (question: Question) => Promise<Answer>, tracker: Tracker, options: HeadPollOptions) {
    this.#ask = ask
    this.#tracker = tracker
    this.#options = options
  }

  /** Polls at once, and from then on whenever it is due; resolves with the first word, be it that there is none. */
  async start (): Promise<void> {
    const everyMs = Math.min(this.#options.pollMs, mostMs)
    this.#timer = setInterval(() => {
      if (this.#isDue()) this.poll().catch(() => {})
      this.#options.onTick?.()
    }, everyMs).unref()
    await this.poll()
  }

  stop (): void {
    this.#isOver = true
    clearInterval(this.#timer)
  }

  /** Asks for the head now; callers at the same time share one question. */
  async poll (): Promise<void> {
    if (this.#isOver) return
    if (this.#underWay === undefined || this.#isHanging) {
      const mine = this.#askForHead().finally(() => {
        this.#count--
        if (this.#underWay === mine) this.#underWay = undefined
      })
      this.#count++
      this.#underWay = mine
    }
    await this.#underWay
  }

  get #isHanging (): boolean {
    return this.#options.now() - this.#polledAt >= 0.9 * mostMs && this.#count < mostUnderWay
  }

  #isDue (): boolean {
    return this.#options.isDue() || this.#options.now() - this.#polledAt >= releaseEveryMs
  }

  async #askForHead (): Promise<void> {
    const polledAt = this.#options.now()
    this.#polledAt = polledAt
    try {
      const { stamped, release } = await askWhereItStands(this.#ask)
      if (stamped === undefined) return this.#options.onState('unanswered')
      const learned = this.#tracker.learn(stamped.position, stamped.family)
      if (learned === 'other_chain') return this.#options.onState('other_chain')
      this.#answeredAt = this.#options.now()
      if (release !== undefined) this.#options.onRelease(release)
      this.#options.onState('answered')
    } catch (error) {
      // Counted by the node itself; the next poll asks again. One that the end cuts off is no word on the node, nor is
      // one that another has overtaken, or that never left.
      const isNothing = error instanceof NodeFailure && saysNothing(error)
      if (!this.#isOver && !isNothing && polledAt >= this.#answeredAt) {
        this.#options.onState(error instanceof Fenced ? 'other_chain' : 'unanswered')
      }
    }
  }
}

/** Where a node stands now; undefined where it does not say. */
export async function readHead (ask: (question: Question) => Promise<Answer>): Promise<StampedPosition | undefined> {
  return await askWhereItStands(ask).then(({ stamped }) => stamped, () => undefined)
}

/**
 * What a node says of itself. Gateways leave the position off the index, or keep the index to themselves, and let the
 * gas estimate through as it is.
 */
async function askWhereItStands (
  ask: (question: Question) => Promise<Answer>
): Promise<{ stamped: StampedPosition | undefined, release: string | undefined }> {
  const index = await askPlainly(ask, indexTarget)
  const release = index.status === 200 ? releaseIn(index.body) : undefined
  if (index.status === 200 && index.stamped !== undefined) return { stamped: index.stamped, release }
  // Who is sick, or has asked for less, is not asked for more.
  if (index.status === 429 || index.status >= 500) return { stamped: undefined, release }
  const gas = await askPlainly(ask, '/v1/estimate_gas_price')
  return { stamped: gas.status === 200 ? gas.stamped : undefined, release }
}

async function askPlainly (ask: (question: Question) => Promise<Answer>, target: string): Promise<Answer> {
  const answer = await ask(questionOfItself(target))
  answer.rest?.destroy()
  return answer
}

/**
 * The release that the index names as its `git_hash`; a body that is no index names none, nor does one whose name is
 * too long to be kept and shared with each entry.
 */
function releaseIn (body: Buffer): string | undefined {
  return /"git_hash"\s*:\s*"([0-9A-Za-z]{1,128})"/.exec(body.toString())?.[1]
}

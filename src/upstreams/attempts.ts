import { type Answer, headerOf, speaksOfNode } from '../api/answer.js'
import { type Flaw } from './best-answer.js'
import { type Member } from './member.js'
import { type FailureReason, NodeFailure, saysNothing } from './node-failure.js'
import { type Question } from './question.js'
import { restOf } from './retry-after.js'
import { type Recall } from './taking-back.js'

/** Looks at an answer before it is taken: undefined where it is one. */
export type Look = (answer: Answer) => Exclude<Flaw, 'sick' | 'resting'> | undefined

/** Puts a question to a node. */
export type Asks = (member: Member, timeoutMs?: number) => Promise<Answer>

/** What an attempt came to; final where it has no flaw. */
export interface Attempt {
  readonly answer: Answer
  readonly flaw: Flaw | undefined
}

// A node that hangs is asked each second whether it is mended, and so never more than eight times at once. Its first
// word is waited for as long as any answer of it: who is to decide at the start may be slow.
const probeMs = 7000

// Nothing was heard of it at all.
const unreached = new Set<FailureReason>(['refused', 'unreachable', 'unresolved'])

// What another node may well answer better; its own 4xx is final.
const failing = new Set([500, 502, 503, 504])

/** One question to one node, and what its health makes of it. */
export class Attempts {
  readonly #wallClockMs: () => number
  readonly #onWord: () => void
  // By member, and gone with it.
  readonly #lastAsked = new WeakMap<Member, Question>()
  readonly #askingAgain = new WeakSet<Member>()
  readonly #probed = new WeakSet<Member>()

  constructor (wallClockMs: () => number, onWord: () => void) {
    this.#wallClockMs = wallClockMs
    this.#onWord = onWord
  }

  /** Asks a node for data. */
  read (member: Member, look: Look, timeoutMs: number | undefined, ask: Asks): Promise<Attempt> {
    return this.#tell(member, ask(member, timeoutMs), look)
  }

  /** The same by a question that may be asked again, to find out whether it is mended. */
  ask (
    member: Member,
    question: Question,
    look: Look,
    timeoutMs: number | undefined,
    signal: Recall | undefined
  ): Promise<Attempt> {
    if (!member.health.isOpen) this.#lastAsked.set(member, question)
    return this.#tell(member, member.ask(question, timeoutMs, signal), look)
  }

  /** Asks a node of itself. */
  async probe (member: Member, question: Question): Promise<Answer> {
    const timeoutMs = this.#probed.has(member) ? probeTimeOf(member) : member.node.timeoutMs
    this.#probed.add(member)
    const { answer } = await this.#tell(member, member.probe(question, timeoutMs), undefined)
    if (member.health.isOpen) this.#askAgain(member).catch(() => {})
    return answer
  }

  /**
   * A node that answers for itself while its reads fail is asked again, for nobody, the last thing before it was given
   * up.
   */
  async #askAgain (member: Member): Promise<void> {
    const question = this.#lastAsked.get(member)
    if (question === undefined || this.#askingAgain.has(member)) return
    this.#askingAgain.add(member)
    try {
      const answer = await member.ask({ ...question, isOwn: true }, probeTimeOf(member))
      answer.rest?.destroy()
      if (!speaksOfNode(answer) && answer.stamped !== undefined) member.health.answered()
    } finally {
      this.#askingAgain.delete(member)
    }
  }

  async #tell (member: Member, asked: Promise<Answer>, look: Look | undefined): Promise<Attempt> {
    const { health } = member
    health.began()
    try {
      const answer = await asked
      const flaw = this.#judge(answer, look)
      switch (flaw) {
        case 'resting':
          health.rest(restOf(headerOf(answer, 'retry-after'), headerOf(answer, 'date'), this.#wallClockMs()))
          break
        case 'sick':
          health.failed(`it answers ${answer.status}`, look === undefined)
          break
        case 'untrue':
          health.failed('it gives answers that cannot be true')
          answer.rest?.destroy()
          break
        case 'behind':
        case 'gone':
        case 'thin':
        case 'thin_behind':
        case undefined:
          if (look === undefined) health.probed()
          else health.answered()
      }
      return { answer, flaw }
    } catch (error) {
      if (error instanceof NodeFailure && !saysNothing(error)) {
        health.failed(error.told, look === undefined || unreached.has(error.reason))
      }
      throw error
    } finally {
      health.ended()
      this.#onWord()
    }
  }

  #judge (answer: Answer, look: Look | undefined): Flaw | undefined {
    if (answer.status === 429) return 'resting'
    const seen = look?.(answer)
    return failing.has(answer.status) && seen !== 'untrue' && seen !== 'gone' ? 'sick' : seen
  }
}

function probeTimeOf ({ node }: Member): number {
  return Math.min(node.timeoutMs, probeMs)
}

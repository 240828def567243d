import { type Answer } from '../reads/answer.js'
import { type HeadPoll } from './head-poll.js'
import { type LedgerNode } from './node.js'
import { type Question } from './question.js'

/** The one node that is asked, as the proxy sees it. */
export class OneNode {
  readonly #node: LedgerNode
  readonly #poll: HeadPoll

  constructor (node: LedgerNode, poll: HeadPoll) {
    this.#node = node
    this.#poll = poll
  }

  async ask (question: Question): Promise<Answer> {
    return await this.#node.ask(question)
  }

  async pass (question: Question, signal: AbortSignal): Promise<Answer> {
    return await this.#node.pass(question, signal)
  }

  /** Whether a version is gone from it, by the window that it last stamped on an answer (law 11). */
  lacks (version: bigint): boolean {
    return version < (this.#node.position?.oldest.version ?? 0n)
  }

  /** Asks for the head, so that a chain that is not known yet becomes known. */
  async poll (): Promise<void> {
    await this.#poll.poll()
  }

  /** The release that a live node runs; undefined while none is known, when every entry counts as current (law 8). */
  get release (): string | undefined {
    return this.#node.up ? this.#node.release : undefined
  }
}

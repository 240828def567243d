import { type StampedPosition } from '../api/position.js'
import { candidatesIn } from './candidates.js'
import { type ControlState } from '../cluster/control.js'
import { type GenerationOptions } from './generation-options.js'
import { type Marks } from './marks.js'
import { type KnownGeneration } from './words.js'

/** What a process can do about the generation that it keys by. */
export interface Own {
  readonly own: KnownGeneration
  adopt(generation: number, known: KnownGeneration, isSameChain: boolean): void
  begin(stamped: StampedPosition): Promise<void>
  leave(generation: number): Promise<void>
}

/** What the other replicas say of generations, and what is to be made of it. */
export class Hearing {
  readonly #options: GenerationOptions
  readonly #marks: Marks
  readonly #own: Own
  // Generations that are of another chain, by what was known of them.
  readonly #refused = new Set<string>()

  constructor (options: GenerationOptions, marks: Marks, own: Own) {
    this.#options = options
    this.#marks = marks
    this.#own = own
  }

  /** What was refused is looked at again: the node may have come back with another chain. */
  askAgain (): void {
    this.#refused.clear()
  }

  /** Takes in what is shared of this process's own generation, and follows a higher one. */
  async hear (state: ControlState): Promise<void> {
    const { tracker, events } = this.#options
    const { generation } = tracker
    const shared = state.generations.get(generation)
    const isOurs = shared === undefined || await this.#isOurs(shared)
    if (tracker.chain === undefined || tracker.generation !== generation) return
    if (!isOurs) {
      events.onRival(generation)
      return await this.#own.leave(generation)
    }
    for (const known of state.generations.keys()) tracker.heardOf(known)
    this.#marks.add(shared?.anchors ?? [])
    if (shared?.head !== undefined) tracker.hear(shared.head)
    const [highest] = candidatesIn(state)
    if (highest !== undefined && highest[0] > generation) await this.#hearHigher(...highest)
  }

  async #hearHigher (generation: number, known: KnownGeneration): Promise<void> {
    const name = `${generation} ${known.anchors.length}`
    if (this.#refused.has(name) || await this.#follow(generation, known)) return
    this.#refused.add(name)
    this.#options.events.onRival(generation)
  }

  /**
   * Whether what is shared of a generation is of this process's own chain; only its node can tell, where the marks do
   * not.
   */
  async #isOurs (shared: KnownGeneration): Promise<boolean> {
    if (this.#marks.list.length === 0 || shared.anchors.length === 0 || this.#marks.areOf(shared.anchors)) return true
    return (await this.#marks.witness(shared)).verdict !== 'other'
  }

  /**
   * Goes over to a higher generation, unless the node is on another chain than that; whoever cannot tell in time
   * follows the others.
   */
  async #follow (generation: number, known: KnownGeneration): Promise<boolean> {
    const { tracker } = this.#options
    const before = tracker.generation
    const isSameChain = this.#marks.goOnIn(known, tracker.position)
    const theirs = await this.#marks.witness(known)
    const ours = theirs.verdict === 'same' || theirs.now === undefined
      ? undefined
      : await this.#marks.witness(this.#own.own)
    // What was asked about a generation that has been left meanwhile is no word on the next.
    if (tracker.chain === undefined || tracker.generation !== before) return true
    // Nobody keys by it yet, so there is nobody to follow.
    if (known.isUnproven === true && theirs.verdict === 'unknown') return false
    if (theirs.verdict !== 'other' && ours?.verdict !== 'same') this.#own.adopt(generation, known, isSameChain)
    else if (ours?.verdict === 'other' && ours.now !== undefined) await this.#own.begin(ours.now)
    else return false
    return true
  }
}

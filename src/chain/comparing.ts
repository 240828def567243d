import { type Position } from '../api/position.js'
import { contradicts, type Tracker } from './tracker.js'
import { needsProof } from './candidates.js'
import { type Newcomer } from './generation-options.js'
import { type Marks } from './marks.js'

/** What a node's chain is beside the one that is keyed by. */
export type Finding = 'same' | 'older' | 'other'

/** Holds what a node says of its chain against what is known of the one that is keyed by. */
export class Comparing {
  readonly #tracker: Tracker
  readonly #marks: Marks
  readonly #chain: () => string

  /** `chain` names the chain that is keyed by: while it is compared another may take its place. */
  constructor (tracker: Tracker, marks: Marks, chain: () => string) {
    this.#tracker = tracker
    this.#marks = marks
    this.#chain = chain
  }

  /**
   * Compares a node; one that cannot be compared is of the same chain, unless that is to be proven. Fails where the
   * node does.
   */
  async find (newcomer: Newcomer, isToBeProven = false): Promise<Finding> {
    const { stamped: { position }, readPeerBlock } = newcomer
    for (;;) {
      const chain = this.#chain()
      const known = { anchors: this.#marks.list, head: this.#tracker.stamped }
      const shown = known.head?.position
      if (shown !== undefined && isEarlier(position, shown) && contradicts(position, shown)) return 'older'
      if (shown !== undefined) await this.#marks.reach(position, shown, readPeerBlock)
      const verdict = await this.#marks.verdictOn({ ...known, anchors: this.#marks.list }, position, newcomer)
      // What it was held against may be another chain's by now.
      if (chain !== this.#chain()) continue
      if (verdict === 'other') return shown !== undefined && isEarlier(position, shown) ? 'older' : 'other'
      return verdict === 'unknown' && isToBeProven && needsProof(known) ? 'other' : 'same'
    }
  }
}

// Of two chains under one name the one with the later time is the newer.
function isEarlier (position: Position, shown: Position): boolean {
  return position.head.timestampUsec < shown.head.timestampUsec
}

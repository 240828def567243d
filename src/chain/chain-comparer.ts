import { type Position } from '../api/position.js'
import { contradicts, type Tracker } from './tracker.js'
import { type ComparedUpstream } from './generation-dependencies.js'
import { type AnchoredChain } from './anchored-chain.js'
import { type GenerationRecord } from './generation-record.js'

/**
 * Result of comparing an upstream's chain with ours; `older` is another chain with the same chain id and an earlier
 * time, `unproven` one without a block to compare. Genesis has no time and one hash on every chain, so `genesis` may be
 * the first moment of another one.
 */
export type ComparisonResult = 'same' | 'older' | 'other' | 'genesis' | 'unproven'

/** Compares an upstream's chain with the chain that our keys name (law 7: chains never mix). */
export class ChainComparer {
  readonly #tracker: Tracker
  readonly #ownChain: AnchoredChain
  readonly #chainName: () => string

  /**
   * `chainName` changes with every reset and generation, so a comparison notices that the chain changed while it
   * waited.
   */
  constructor (tracker: Tracker, ownChain: AnchoredChain, chainName: () => string) {
    this.#tracker = tracker
    this.#ownChain = ownChain
    this.#chainName = chainName
  }

  /** Counts an upstream that cannot be compared as another chain where proof is required; rejects when a read fails. */
  async compare (compared: ComparedUpstream, requiresProof = false): Promise<ComparisonResult> {
    const { stamped: { position }, readPeerBlock } = compared
    for (;;) {
      const chain = this.#chainName()
      const known = { anchors: this.#ownChain.anchors, head: this.#tracker.stamped }
      const served = known.head?.position
      if (served !== undefined && isEarlier(position, served) && contradicts(position, served)) return 'older'
      if (served !== undefined) await this.#ownChain.ensureComparable(position, served, readPeerBlock)
      const comparison = await this.#ownChain.judgeChain(
        { ...known, anchors: this.#ownChain.anchors },
        position,
        compared
      )
      // A reset during the comparison makes its result worthless.
      if (chain !== this.#chainName()) continue
      if (comparison === 'unproven' && served !== undefined && isGenesis(position) && !isGenesis(served)) {
        return 'genesis'
      }
      if (comparison === 'other') return served !== undefined && isEarlier(position, served) ? 'older' : 'other'
      return comparison === 'unproven' && requiresProof && needsProof(known) ? 'other' : comparison
    }
  }
}

// Without anchors a head suffices: an upstream without blocks by height has nothing else to compare.
function needsProof ({ anchors, head }: GenerationRecord): boolean {
  return anchors.length > 0 || head === undefined
}

// Of two chains with the same chain id, the newer has the later time ("Chains and resets").
function isEarlier (position: Position, served: Position): boolean {
  return position.head.timestampUsec < served.head.timestampUsec
}

function isGenesis ({ head }: Position): boolean {
  return head.version === 0n
}

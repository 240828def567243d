import { type Anchor, Anchors } from '../ledger/anchors.js'
import { type Position, type StampedPosition } from '../ledger/position.js'
import { contradicts } from '../ledger/tracker.js'
import { within } from '../within.js'
import { type GenerationOptions } from './generation-options.js'
import { type KnownGeneration } from './words.js'

/** Whether a node's chain is the one that is known. */
export type Verdict = 'same' | 'other' | 'unknown'

// Nodes that do not serve blocks by height are asked for no more of them than this.
const maxCompared = 3

// Replicas are to be of one mind within a second.
const patienceMs = 400

/** What a node is asked to know its chain by. */
export type Witnessing = Pick<GenerationOptions, 'readBlock' | 'readHead'>

/** The blocks that the chain of this process is known by, read from its node by height. */
export class Marks {
  readonly #node: Witnessing
  #anchors = new Anchors()

  constructor (node: Witnessing) {
    this.#node = node
  }

  get list (): readonly Anchor[] {
    return this.#anchors.list
  }

  add (anchors: readonly Anchor[]): void {
    this.#anchors.add(anchors)
  }

  replace (anchors: readonly Anchor[]): void {
    this.#anchors = new Anchors(anchors)
  }

  /** Whether other anchors are surely of the same chain. */
  areOf (anchors: readonly Anchor[]): boolean {
    return this.#anchors.isSameAs(anchors) === true
  }

  /** Whether what is known of another generation is the same chain going on; where nobody has marks the positions must do. */
  goOnIn ({ anchors, head }: KnownGeneration, shown: Position | undefined): boolean {
    if (anchors.length > 0) return this.areOf(anchors)
    return head !== undefined && shown !== undefined && !contradicts(head.position, shown)
  }

  /** Has the node say, as it is now, whether its chain is the one that is known; whoever does not answer in time has no word on it. */
  async witness (known: KnownGeneration): Promise<{ verdict: Verdict, now: StampedPosition | undefined }> {
    const said = this.#node.readHead().then(async now => ({ now, verdict: now === undefined ? 'unknown' : await this.verdictOn(known, now.position) }))
    return await within(patienceMs, said) ?? { verdict: 'unknown', now: undefined }
  }

  /** Compares a node that stands at a position with what is known of a chain. */
  async verdictOn ({ anchors, head }: KnownGeneration, position: Position): Promise<Verdict> {
    if (head !== undefined && contradicts(position, head.position)) return 'other'
    // Every genesis block has the same hash.
    const oldest = position.oldest.blockHeight < 1n ? 1n : position.oldest.blockHeight
    for (const { height, hash } of new Anchors(anchors).within(oldest, position.head.blockHeight - 1n).slice(0, maxCompared)) {
      const block = await this.#node.readBlock(height)
      if (block?.hash === hash) return 'same'
      // Too much is forgotten on such a word for it to be taken but once.
      if (block !== undefined && (await this.#node.readBlock(height))?.hash === block.hash) return 'other'
    }
    return 'unknown'
  }

  /** Reads blocks to know the chain by: at both ends of the window and between, later those that come. */
  async spread ({ head, oldest }: Position): Promise<void> {
    const newest = head.blockHeight - 1n
    const known = this.#anchors.list.at(-1)?.height
    if (newest < 1n || (known !== undefined && newest <= known)) return
    const heights = known === undefined ? [newest, (oldest.blockHeight + newest) / 2n, oldest.blockHeight] : [newest]
    const into = this.#anchors
    const blocks = await Promise.all([...new Set(heights)].filter(height => height > 0n).map(this.#node.readBlock))
    // The chain that was asked about may have been left for another by now.
    if (this.#anchors === into) into.add(blocks.filter(block => block !== undefined))
  }
}

import { type Anchor, Anchors } from './anchors.js'
import { type Position, type StampedPosition } from '../api/position.js'
import { contradicts } from './tracker.js'
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

  // Where it is only asked what is known, one that fails knows nothing.
  get #quiet (): Pick<Witnessing, 'readBlock'> {
    return { readBlock: async height => await this.#node.readBlock(height).catch(() => undefined) }
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

  /**
   * Whether what is known of another generation is the same chain going on; where nobody has marks the positions must
   * do.
   */
  goOnIn ({ anchors, head }: KnownGeneration, shown: Position | undefined): boolean {
    if (anchors.length > 0) return this.areOf(anchors)
    return head !== undefined && shown !== undefined && !contradicts(head.position, shown)
  }

  /**
   * Has the node say, as it is now, whether its chain is the one that is known; whoever does not answer in time has no
   * word on it.
   */
  async witness (known: KnownGeneration): Promise<{ verdict: Verdict, now: StampedPosition | undefined }> {
    const said = this.#node.readHead().then(async now => ({
      now,
      verdict: now === undefined ? 'unknown' : await this.verdictOn(known, now.position)
    }))
    return await within(patienceMs, said) ?? { verdict: 'unknown', now: undefined }
  }

  /** Compares a node that stands at a position with what is known of a chain; fails where the node does. */
  async verdictOn (
    { anchors, head }: KnownGeneration,
    position: Position,
    { readBlock }: Pick<Witnessing, 'readBlock'> = this.#quiet
  ): Promise<Verdict> {
    if (head !== undefined && contradicts(position, head.position)) return 'other'
    // Every genesis block has the same hash.
    const oldest = position.oldest.blockHeight < 1n ? 1n : position.oldest.blockHeight
    for (
      const { height, hash } of new Anchors(anchors).within(oldest, position.head.blockHeight - 1n).slice(
        0,
        maxCompared
      )
    ) {
      const block = await readBlock(height)
      if (block?.hash === hash) return 'same'
      // Too much is forgotten on such a word for it to be taken but once.
      if (block !== undefined && (await readBlock(height))?.hash === block.hash) return 'other'
    }
    return 'unknown'
  }

  /**
   * Makes sure that a node can be compared: where no mark is in its window, one that another node of the chain has too
   * is read from that one.
   */
  async reach (
    { head, oldest }: Position,
    shown: Position,
    readBlock: Witnessing['readBlock'] | undefined
  ): Promise<void> {
    if (readBlock === undefined) return
    const lowest = oldest.blockHeight < 1n ? 1n : oldest.blockHeight
    const newest = (head.blockHeight < shown.head.blockHeight ? head : shown.head).blockHeight - 1n
    if (newest < lowest || this.#anchors.within(lowest, newest).length > 0) return
    const into = this.#anchors
    const block = await readBlock(newest).catch(() => undefined)
    if (this.#anchors === into && block !== undefined) into.add([block])
  }

  /**
   * Reads blocks to know the chain by: at both ends of the window and between, later those that come. Whether the node
   * had a word on each.
   */
  async spread ({ head, oldest }: Position, readBlock = this.#node.readBlock): Promise<boolean> {
    const newest = head.blockHeight - 1n
    const known = this.#anchors.list.at(-1)?.height
    if (newest < 1n || (known !== undefined && newest <= known)) return true
    const heights = known === undefined ? [newest, (oldest.blockHeight + newest) / 2n, oldest.blockHeight] : [newest]
    const into = this.#anchors
    const read = await Promise.allSettled([...new Set(heights)].filter(height => height > 0n).map(readBlock))
    const blocks = read.flatMap(each => each.status === 'fulfilled' && each.value !== undefined ? [each.value] : [])
    // The chain that was asked about may have been left for another by now.
    if (this.#anchors === into) into.add(blocks)
    return read.every(({ status }) => status === 'fulfilled')
  }
}

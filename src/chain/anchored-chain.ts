import { type Anchor, Anchors } from './anchors.js'
import { type Position, type ResponsePosition } from '../api/position.js'
import { contradicts } from './tracker.js'
import { type GenerationDependencies } from './generation-dependencies.js'
import { type GenerationRecord } from './generation-record.js'

/** Result of comparing blocks and positions; `unproven` where the upstream has none of the anchors. */
export type ChainComparison = 'same' | 'other' | 'unproven'

/** Verdict on a generation's chain; `unknown` where the upstream failed to respond, so a later comparison decides. */
export type ChainVerdict = ChainComparison | 'unknown'

// Bounds the reads at an upstream that does not serve blocks by height.
const maxComparedBlocks = 3

/** Reads that identify the chain of an upstream. */
type ChainSource = Pick<GenerationDependencies, 'readBlock' | 'readHead'>

/** Anchors of this process's chain, read by height from a verified upstream. */
export class AnchoredChain {
  readonly #source: ChainSource
  #anchors = new Anchors()

  constructor (source: ChainSource) {
    this.#source = source
  }

  get anchors (): readonly Anchor[] {
    return this.#anchors.list
  }

  add (anchors: readonly Anchor[]): void {
    this.#anchors.add(anchors)
  }

  replace (anchors: readonly Anchor[]): void {
    this.#anchors = new Anchors(anchors)
  }

  /** Compares anchors at shared heights; undefined where no height is shared. */
  isSameChain (anchors: readonly Anchor[]): boolean | undefined {
    return this.#anchors.isSameChain(anchors)
  }

  /** Returns true if another generation continues our chain. Positions decide where neither side has anchors. */
  isContinuedBy ({ anchors, head }: GenerationRecord, served: Position | undefined): boolean {
    if (anchors.length > 0 || this.anchors.length > 0) return this.isSameChain(anchors) === true
    return head !== undefined && served !== undefined && !contradicts(head.position, served)
  }

  /** Judges a generation by a verified upstream's chain as it is now. */
  async verifyNow (known: GenerationRecord): Promise<{ verdict: ChainVerdict, now: ResponsePosition | undefined }> {
    const now = await this.#source.readHead()
    return { now, verdict: now === undefined ? 'unknown' : await this.verifyAt(known, now.position) }
  }

  /**
   * Judges a generation by a verified upstream's blocks. A position proves a chain only where neither the generation
   * nor the upstream has anchors.
   */
  async verifyAt (known: GenerationRecord, position: Position): Promise<ChainVerdict> {
    let hasFailed = false
    const readBlock: ChainSource['readBlock'] = async height =>
      await this.#source.readBlock(height).catch(() => {
        hasFailed = true
        return undefined
      })
    const comparison = await this.judgeChain(known, position, { readBlock })
    if (comparison !== 'unproven') return comparison
    if (hasFailed) return 'unknown'
    if (known.anchors.length > 0 || known.head === undefined) return 'unproven'
    if (!await this.readAnchors(position)) return 'unknown'
    return this.anchors.length === 0 ? 'same' : 'unproven'
  }

  /** Compares an upstream's position and blocks with a known generation; rejects when `readBlock` does. */
  async judgeChain (
    { anchors, head }: GenerationRecord,
    position: Position,
    { readBlock }: Pick<ChainSource, 'readBlock'>
  ): Promise<ChainComparison> {
    if (head !== undefined && contradicts(position, head.position)) return 'other'
    // The genesis block has the same hash on every chain, so it proves nothing.
    const oldest = position.oldest.blockHeight < 1n ? 1n : position.oldest.blockHeight
    for (
      const { height, hash } of new Anchors(anchors).within(oldest, position.head.blockHeight - 1n).slice(
        0,
        maxComparedBlocks
      )
    ) {
      const block = await readBlock(height)
      if (block?.hash === hash) return 'same'
      // A second read confirms the difference, because this verdict abandons everything cached.
      if (block !== undefined && (await readBlock(height))?.hash === block.hash) return 'other'
    }
    return 'unproven'
  }

  /**
   * Makes an upstream comparable: where no anchor is in its window, reads one from a verified upstream that shares
   * heights with it. Rejects when that read fails: a lagging upstream of an old chain would count as ours.
   */
  async ensureComparable (
    { head, oldest }: Position,
    served: Position,
    readBlock: ChainSource['readBlock'] | undefined
  ): Promise<void> {
    if (readBlock === undefined) return
    const lowest = oldest.blockHeight < 1n ? 1n : oldest.blockHeight
    const newest = (head.blockHeight < served.head.blockHeight ? head : served.head).blockHeight - 1n
    if (newest < lowest || this.#anchors.within(lowest, newest).length > 0) return
    const anchorsBefore = this.#anchors
    const block = await readBlock(newest)
    if (this.#anchors === anchorsBefore && block !== undefined) anchorsBefore.add([block])
  }

  /**
   * Reads anchors: first at both ends and the middle of the window, later at the head. Returns true if no read failed.
   */
  async readAnchors ({ head, oldest }: Position, readBlock = this.#source.readBlock): Promise<boolean> {
    const newest = head.blockHeight - 1n
    const known = this.#anchors.list.at(-1)?.height
    if (newest < 1n || (known !== undefined && newest <= known)) return true
    const heights = known === undefined ? [newest, (oldest.blockHeight + newest) / 2n, oldest.blockHeight] : [newest]
    const anchorsBefore = this.#anchors
    const read = await Promise.allSettled([...new Set(heights)].filter(height => height > 0n).map(readBlock))
    const blocks = read.flatMap(each => each.status === 'fulfilled' && each.value !== undefined ? [each.value] : [])
    // A reset during the reads has replaced the anchors; these blocks are of the old chain.
    if (this.#anchors === anchorsBefore) anchorsBefore.add(blocks)
    return read.every(({ status }) => status === 'fulfilled')
  }
}

import { type Anchor, Anchors } from './anchors.js'
import { type Position, type StampedPosition } from '../api/position.js'
import { contradicts } from './tracker.js'
import { withTimeout } from '../with-timeout.js'
import { type GenerationOptions } from './generation-options.js'
import { type KnownGeneration } from './known-generation.js'

/** Verdict on an upstream's chain; `unknown` where no anchor could be compared. */
export type ChainVerdict = 'same' | 'other' | 'unknown'

// Bounds the reads at an upstream that does not serve blocks by height.
const maxComparedBlocks = 3

// Replicas must agree within a second.
const verifyTimeoutMs = 400

/** Reads that identify the chain of an upstream. */
type ChainSource = Pick<GenerationOptions, 'readBlock' | 'readHead'>

/** Anchors of this process's chain, read by height from a verified upstream. */
export class AnchoredChain {
  readonly #source: ChainSource
  #anchors = new Anchors()

  constructor (source: ChainSource) {
    this.#source = source
  }

  // A failed read proves nothing, so it counts as no block.
  get #tolerantSource (): Pick<ChainSource, 'readBlock'> {
    return { readBlock: async height => await this.#source.readBlock(height).catch(() => undefined) }
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

  /** Returns true only if shared heights prove the same chain. */
  matches (anchors: readonly Anchor[]): boolean {
    return this.#anchors.isSameChain(anchors) === true
  }

  /** Returns true if another generation continues our chain. Positions decide where that generation has no anchors. */
  isContinuedBy ({ anchors, head }: KnownGeneration, served: Position | undefined): boolean {
    if (anchors.length > 0) return this.matches(anchors)
    return head !== undefined && served !== undefined && !contradicts(head.position, served)
  }

  /** Compares a generation with a verified upstream's chain as it is now; a timeout gives `unknown`. */
  async verifyNow (known: KnownGeneration): Promise<{ verdict: ChainVerdict, now: StampedPosition | undefined }> {
    const verdict = this.#source.readHead().then(async now => ({
      now,
      verdict: now === undefined ? 'unknown' : await this.judgeChain(known, now.position)
    }))
    return await withTimeout(verifyTimeoutMs, verdict) ?? { verdict: 'unknown', now: undefined }
  }

  /** Compares an upstream's position and blocks with a known generation; rejects when `readBlock` does. */
  async judgeChain (
    { anchors, head }: KnownGeneration,
    position: Position,
    { readBlock }: Pick<ChainSource, 'readBlock'> = this.#tolerantSource
  ): Promise<ChainVerdict> {
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
    return 'unknown'
  }

  /**
   * Makes an upstream comparable: where no anchor is in its window, reads one from a verified upstream that shares
   * heights with it.
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
    const block = await readBlock(newest).catch(() => undefined)
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

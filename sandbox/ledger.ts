import { TransactionAccumulator } from './accumulator.js'
import { digestBytes, digestHex } from './digests.js'
import { type Position } from './make-response.js'
import { StateIndex } from './state-index.js'
import { Submissions } from './submissions.js'

// Covers blocks with more transactions than a response may contain, and large blocks below that limit.
const bigBlocks: Readonly<Record<number, number>> = { 500: 12_000, 900: 3_500, 1500: 6_000 }

/** Releases of known rank, oldest first; each renders more members of an ABI than the one before. */
export const releases = {
  events: '1111111111111111111111111111111111111111',
  enums: '2222222222222222222222222222222222222222',
  variants: '3333333333333333333333333333333333333333'
} as const

/** Responses of nodes to a read of pruned events; see docs/node-behaviour.md, "Pruned events". */
export type PrunedEventsMode = 'error500' | 'gone410' | 'empty' | 'gaps' | 'served'

/** One block of the ledger. */
export interface Block {
  readonly height: bigint
  readonly hash: string
  readonly timestampUsec: bigint
  readonly epoch: bigint
  readonly firstVersion: bigint
  readonly lastVersion: bigint
  /** First version of transactions that clients submitted; the last version where there is none. */
  readonly submittedFrom: bigint
}

/** Initial settings of a ledger. */
export interface LedgerOptions {
  readonly seed: number
  readonly chainId: number
  readonly blocks: number
  readonly prunedBlocks: number
  readonly windowBlocks: number
  readonly startVersion: bigint
  readonly release?: string
  readonly startUsec?: bigint
  readonly blockTransactions?: number
  readonly realLeaves?: boolean
  /** Milliseconds between two blocks, also in their timestamps; 0 or undefined: a quarter of a second. */
  readonly blockMs?: number
}

/** The number of blocks between two changes of the epoch. */
export const epochBlocks = 200

/** Blocks below the window of the head that are remembered, since nodes that lag read there. */
export const retainedBlocksBelowWindow = 2_000

// Time between two blocks of a chain that only `grow` makes longer.
const usualBlockMs = 250
// Metadata, a user transaction and the end.
const leastSizeWithUser = 3
// Leaves room for the jitter.
const leastBlockUsec = 5

/** Simulated chain: the same seed and growth give the same bytes, independent of the clock. */
export class Ledger {
  readonly seed: number
  readonly chainId: number
  readonly startVersion: bigint
  readonly windowBlocks: number
  /** Mean number of user transactions in a block; undefined: few, with some very large blocks. */
  readonly blockTransactions: number | undefined
  /** Hashes each transaction for the accumulator; else its roots are drawn, which costs far less. */
  readonly realLeaves: boolean
  /** The `git_hash` of the node's release; it decides how ABIs are rendered. */
  release: string
  prunedEvents: PrunedEventsMode = 'error500'
  /** Form of the transactions in a BCS block: an option (00, 01) or a bare vector. */
  blockBcs: 'option' | 'bare' = 'option'
  /** Form of the info of a transaction, in BCS and in the accumulator; the newer one hashes the hot state too. */
  transactionInfo: 'v0' | 'v1' = 'v0'
  /** @internal Where each state key is listed, extended on demand. */
  readonly state = new StateIndex()
  /** @internal Roots of the transactions, extended on demand. */
  readonly accumulator = new TransactionAccumulator()
  /** @internal Running sums of the deposits, extended on demand, so that a balance is one look-up. */
  readonly depositSums: bigint[] = [0n]
  /** @internal Another chain that a fault serves from some version on, made on demand. */
  fork: Ledger | undefined
  /** @internal Transactions in JSON by release and version, as bytes, which the collector need not move. */
  readonly printed = new Map<string, Buffer>()
  /** @internal Index of versions by transaction hash, extended on demand. */
  readonly versionsByHash = { versions: new Map<string, bigint>(), next: 0n }
  /** @internal Transactions that clients submitted; the only content that does not follow from the seed. */
  readonly submissions = new Submissions()
  /** Milliseconds between two blocks, also in their timestamps. */
  readonly blockMs: number
  // Number of submitted transactions, for each block that has some.
  readonly #submitted = new Map<number, number>()
  readonly #startUsec: bigint
  // First version of each block relative to the start; the last element is the end of the newest block.
  readonly #firstOffsets = [0]
  readonly #knownSendHeights: number[] = []
  #prunedTo = 0

  /** @internal */
  constructor (options: LedgerOptions) {
    this.seed = options.seed
    this.chainId = options.chainId
    this.startVersion = options.startVersion
    this.windowBlocks = options.windowBlocks
    this.blockTransactions = options.blockTransactions
    this.realLeaves = options.realLeaves ?? false
    this.release = options.release ?? releases.variants
    this.blockMs = options.blockMs !== undefined && options.blockMs > 0 ? options.blockMs : usualBlockMs
    this.#startUsec = options.startUsec ?? 1_660_247_629_760_032n
    this.grow(Math.max(1, options.blocks))
    this.pruneTo(options.prunedBlocks)
  }

  /** Time between the timestamps of two blocks, without their jitter. */
  get blockUsec (): bigint {
    return BigInt(Math.max(leastBlockUsec, Math.round(this.blockMs * 1000)))
  }

  /** @internal Makes a chain of the same form with other transactions; options replace those of this chain. */
  sibling (options: Partial<LedgerOptions> & Pick<LedgerOptions, 'seed' | 'blocks'>): Ledger {
    const { chainId, startVersion, windowBlocks, release, realLeaves, blockMs, blockTransactions: size } = this
    const own = { chainId, startVersion, windowBlocks, release, realLeaves, blockMs, prunedBlocks: 0 }
    return new Ledger({ ...own, ...size !== undefined && { blockTransactions: size }, ...options })
  }

  /** The height of the newest block. */
  get height (): number {
    return this.#firstOffsets.length - 2
  }

  /** Version, time, epoch and height of the newest block. */
  get head (): { version: bigint, timestampUsec: bigint, epoch: bigint, blockHeight: bigint } {
    const { version, timestampUsec, epoch, blockHeight } = this.position()
    return { version, timestampUsec, epoch, blockHeight }
  }

  /** Oldest version and block that are not pruned. */
  get oldest (): { version: bigint, blockHeight: bigint } {
    const { oldestVersion, oldestBlockHeight } = this.position()
    return { version: oldestVersion, blockHeight: oldestBlockHeight }
  }

  /** @internal The heights of the blocks whose first user transaction one of the known accounts sends. */
  get knownSendHeights (): readonly number[] {
    return this.#knownSendHeights
  }

  /** Adds blocks. */
  grow (blocks = 1): void {
    for (let added = 0; added < blocks; added++) {
      const height = this.height + 1
      const ready = height === 0 ? [] : this.submissions.takeReady(this.#timestampUsec(height) / 1_000_000n)
      const drawnSize = blockSize(this.seed, height, this.blockTransactions)
      // Submitted transactions follow one of the seed, so that no rule about the first of a block concerns them.
      const size = ready.length === 0 ? drawnSize : Math.max(leastSizeWithUser, drawnSize)
      if (height % 4 === 2 && size >= leastSizeWithUser) this.#knownSendHeights.push(height)
      const first = Number(this.#firstOffsets.at(-1))
      this.#firstOffsets.push(first + size + ready.length)
      if (ready.length > 0) this.#submitted.set(height, ready.length)
      ready.forEach((transaction, at) => {
        this.submissions.commit(transaction, this.startVersion + BigInt(first + size - 1 + at))
      })
    }
  }

  /** Prunes everything below a height; pruning cannot be undone. */
  pruneTo (height: number | bigint): void {
    this.#prunedTo = Math.max(this.#prunedTo, Math.min(Number(height), this.height))
  }

  /** Returns the position of a node whose newest block is at a height; default: the head. */
  position (height: number = this.height): Position {
    const newest = this.block(height)
    const oldest = this.block(Math.max(Math.min(this.#prunedTo, height), height + 1 - this.windowBlocks))
    return {
      chainId: this.chainId,
      version: newest.lastVersion,
      oldestVersion: oldest.firstVersion,
      timestampUsec: newest.timestampUsec,
      epoch: newest.epoch,
      blockHeight: newest.height,
      oldestBlockHeight: oldest.height,
      encryptionKey: digestHex(this.seed, 'encryption key', newest.epoch)
    }
  }

  /** Returns the block at a height, even if pruned; throws if the chain has no such block. */
  block (height: number | bigint): Block {
    const at = Number(height)
    const first = this.#firstOffsets[at]
    const next = this.#firstOffsets[at + 1]
    if (first === undefined || next === undefined) throw new RangeError(`no block of height ${height}`)
    return this.#makeBlock(at, first, next)
  }

  /** Returns the block after an existing one; after the head, what the seed determines of it. */
  blockAfter (height: number | bigint): Block {
    const at = Number(height) + 1
    if (at <= this.height) return this.block(at)
    const first = Number(this.block(height).lastVersion - this.startVersion) + 1
    return this.#makeBlock(at, first, first + blockSize(this.seed, at, this.blockTransactions))
  }

  /** Returns the block that contains a version, which must be between the start and the head. */
  blockOf (version: bigint): Block {
    const offset = Number(version - this.startVersion)
    let low = 0
    let high = this.height
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if (Number(this.#firstOffsets[middle]) <= offset) low = middle
      else high = middle - 1
    }
    return this.block(low)
  }

  // At most two fifths of the time between blocks, so that timestamps rise.
  #jitterUsec (height: number): bigint {
    return BigInt(height * 7919) % (this.blockUsec * 2n / 5n)
  }

  #timestampUsec (height: number): bigint {
    return height === 0 ? 0n : this.#startUsec + BigInt(height) * this.blockUsec + this.#jitterUsec(height)
  }

  #makeBlock (height: number, first: number, next: number): Block {
    const lastVersion = this.startVersion + BigInt(next) - 1n
    return {
      height: BigInt(height),
      hash: height === 0 ? `0x${'0'.repeat(64)}` : digestHex(this.seed, 'block', height),
      timestampUsec: this.#timestampUsec(height),
      epoch: BigInt(1 + Math.floor(height / epochBlocks)),
      firstVersion: this.startVersion + BigInt(first),
      lastVersion,
      submittedFrom: lastVersion - BigInt(this.#submitted.get(height) ?? 0)
    }
  }
}

/** Number of versions in the block at a height; `mean` is the number of user transactions. */
function blockSize (seed: number, height: number, mean?: number): number {
  // The genesis block has a single transaction.
  if (height === 0) return 1
  if (mean !== undefined) return 2 + Math.round(mean * (0.5 + digestBytes(seed, 'size', height).readUInt8() / 255))
  const big = bigBlocks[height]
  if (big !== undefined) return big
  return height % 7 === 3 ? 1 : 1 + digestBytes(seed, 'size', height).readUInt8() % 9
}

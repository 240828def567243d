import { Ledger } from '../../../sandbox/ledger.js'

/** One chain of those that have had the same name, from its first version to its head. */
export interface Era {
  readonly index: number
  readonly seed: number
  readonly startUsec: bigint
  /** Unpruned history of the chain. */
  readonly archive: Ledger
}

/** Chain id of every era. */
export const chainId = 4

const firstUsec = 1_660_247_629_760_032n
// Separates the clocks of two eras by more than any run takes.
const dayUsec = 86_400_000_000n
// Keeps the order of heads: growth before varve meets the new chain must not change which is ahead.
const leastBehind = 80
const leastAhead = 20

/** The upstreams' chain: it grows, and each reset replaces it by another of the same name. */
export class Chain {
  #seed: number
  readonly #eras: [Era, ...Era[]]

  constructor (seed: number, blocks: number) {
    this.#seed = seed
    this.#eras = [this.#era(0, blocks)]
  }

  /** Newest era. */
  get current (): Era {
    return this.#eras.at(-1) ?? this.#eras[0]
  }

  get eras (): readonly Era[] {
    return this.#eras
  }

  /** Adds a block to every era that an upstream may still be on. */
  grow (): void {
    for (const { archive } of this.#eras.slice(-2)) archive.grow()
  }

  /** Starts another chain of the same name with more or fewer blocks, and versions ahead or behind in proportion. */
  startEra (more: number): Era {
    const { archive } = this.current
    for (;;) {
      const era = this.#era(this.#eras.length, archive.height + 1 + more)
      const versions = Number(era.archive.head.version - archive.head.version)
      if (more < 0 ? versions > -leastBehind : versions < leastAhead) continue
      this.#eras.push(era)
      return era
    }
  }

  /** Returns the era of a timestamp on a response. */
  eraAt (timestampUsec: bigint): Era | undefined {
    return this.#eras[Number((timestampUsec - firstUsec) / dayUsec)]
  }

  #era (index: number, blocks: number): Era {
    const seed = this.#seed++
    const startUsec = firstUsec + BigInt(index) * dayUsec
    return {
      index,
      seed,
      startUsec,
      archive: new Ledger({
        seed,
        chainId,
        blocks,
        startUsec,
        prunedBlocks: 0,
        windowBlocks: 100_000_000,
        startVersion: 0n
      })
    }
  }
}

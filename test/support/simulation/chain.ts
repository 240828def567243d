import { Ledger } from '../../../sandbox/ledger.js'

/** One chain among those that have borne the same name in turns, from its first version to its head. */
export interface Era {
  readonly index: number
  readonly seed: number
  readonly startUsec: bigint
  /** All of its history: what was pruned everywhere is still known here. */
  readonly archive: Ledger
}

/** The chain id of every era. */
export const chainId = 4

const firstUsec = 1_660_247_629_760_032n
// No run is so long that an era's clock could reach into the next one.
const dayUsec = 86_400_000_000n
// What the new chain grows by until it is met must not change which of them is ahead.
const leastBehind = 80
const leastAhead = 20

/** The chain of the nodes: it grows, and another takes its name with every reset. */
export class Chain {
  #seed: number
  readonly #eras: [Era, ...Era[]]

  constructor (seed: number, blocks: number) {
    this.#seed = seed
    this.#eras = [this.#era(0, blocks)]
  }

  /** The newest. */
  get current (): Era {
    return this.#eras.at(-1) ?? this.#eras[0]
  }

  get eras (): readonly Era[] {
    return this.#eras
  }

  /** Adds a block to every era that a node may still be on. */
  grow (): void {
    for (const { archive } of this.#eras.slice(-2)) archive.grow()
  }

  /**
   * Another chain of the same name, begun later, of so many blocks more or fewer, and by as much ahead of the old one
   * or behind it in versions too.
   */
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

  /** The era of a time that was stamped on an answer. */
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

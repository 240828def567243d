import { type Position } from './position.js'

/** What an answer's position turned out to be beside the one already shown. */
export type Learned = 'ahead' | 'behind' | 'reset' | 'other_chain'

/** The chain and generation that every key names (law 7). */
export interface Chain {
  readonly id: number
  readonly generation: number
}

/** The one ledger position of this process: it is learned from answers, shown to clients, and never goes back (law 4). */
export class Tracker {
  readonly #now: () => number
  readonly #onReset: () => void
  #chainId: number | undefined
  #generation = 1
  #position: Position | undefined
  #family: string | undefined
  #learnedAt = -Infinity

  /** A configured chain id is believed over what any node says; without one the first answer decides. */
  constructor (chainId: number | undefined, now: () => number, onReset: () => void = () => {}) {
    this.#chainId = chainId
    this.#now = now
    this.#onReset = onReset
  }

  /** The chain to key by; undefined until it is configured or learned. */
  get chain (): Chain | undefined {
    return this.#chainId === undefined ? undefined : { id: this.#chainId, generation: this.#generation }
  }

  /** The position that clients are shown. */
  get position (): Position | undefined {
    return this.#position
  }

  /** The prefix of the node's own header names, once seen. */
  get family (): string | undefined {
    return this.#family
  }

  /** How long ago an answer last confirmed the position. */
  get ageMs (): number {
    return this.#now() - this.#learnedAt
  }

  /** Takes in the position of an answer that has just come. */
  learn (position: Position, family: string): Learned {
    this.#chainId ??= position.chainId
    if (position.chainId !== this.#chainId) return 'other_chain'
    const shown = this.#position
    if (shown === undefined) return this.#show(position, family, 'ahead')
    const versions = compare(position.head.version, shown.head.version)
    const times = compare(position.head.timestampUsec, shown.head.timestampUsec)
    // Within one chain version and time rise together (law 7); blocks may share a time, so only a contradiction counts.
    const contradiction = versions * times < 0 || (versions === 0 && times !== 0)
    if (!contradiction) return versions < 0 ? 'behind' : this.#show(position, family, 'ahead')
    // Of two chains under one name the one with the later time is the newer.
    if (times < 0) return 'other_chain'
    this.#generation++
    this.#onReset()
    return this.#show(position, family, 'reset')
  }

  #show (position: Position, family: string, learned: Learned): Learned {
    this.#position = position
    this.#family = family
    this.#learnedAt = this.#now()
    return learned
  }
}

function compare (a: bigint, b: bigint): -1 | 0 | 1 {
  return a === b ? 0 : a < b ? -1 : 1
}

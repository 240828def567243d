import { compare, type Oldest, type Position, type StampedPosition } from '../api/position.js'

/** What an answer's position turned out to be beside the one already shown. */
export type Learned = 'ahead' | 'behind' | 'reset' | 'other_chain'

/** The chain and generation that every key names (law 7). */
export interface Chain {
  readonly id: number
  readonly generation: number
}

/** Who wants to know what becomes of the position. */
export interface TrackerListener {
  /**
   * Another chain has taken the name of this one: its position is given, and what was known of the old one means
   * nothing any more.
   */
  onReset?(stamped: StampedPosition): void
  /** An answer has moved the position on. */
  onAhead?(): void
  /** The position shown has moved on, whoever told of it. */
  onShown?(): void
}

/**
 * The one ledger position of this process: it is learned from answers, shown to clients, and never goes back (law 4).
 */
export class Tracker {
  readonly #now: () => number
  readonly #listener: TrackerListener
  readonly #configuredId: number | undefined
  #chainId: number | undefined
  #chain: Chain | undefined
  readonly #isShared: boolean
  #isSettled: boolean
  #generation = 1
  #highest = 1
  #shown: StampedPosition | undefined
  #learnedAt = -Infinity
  #oldest: Oldest | undefined

  /**
   * A configured chain id is believed over what any node says; without one the first answer decides. Where replicas
   * share what they know, there is no chain to key by until it is settled among them which generation it is.
   */
  constructor (chainId: number | undefined, now: () => number, listener: TrackerListener = {}, isShared = false) {
    this.#configuredId = chainId
    this.#chainId = chainId
    this.#now = now
    this.#listener = listener
    this.#isShared = isShared
    this.#isSettled = !isShared
  }

  /** The chain to key by; undefined until it is configured or learned, and settled. */
  get chain (): Chain | undefined {
    if (this.#chainId === undefined || !this.#isSettled) return undefined
    // The same object for as long as it is the same chain.
    if (this.#chain?.id !== this.#chainId || this.#chain.generation !== this.#generation) {
      this.#chain = { id: this.#chainId, generation: this.#generation }
    }
    return this.#chain
  }

  /** The generation that was keyed by last, settled or not. */
  get generation (): number {
    return this.#generation
  }

  /** The chain that the configuration names. */
  get configuredId (): number | undefined {
    return this.#configuredId
  }

  /** The chain that was configured or learned, settled or not. */
  get chainId (): number | undefined {
    return this.#chainId
  }

  /** The position that clients are shown. */
  get position (): Position | undefined {
    return this.#shown?.position
  }

  /** The same with the family of names that it came under. */
  get stamped (): StampedPosition | undefined {
    return this.#shown
  }

  /** The prefix of the node's own header names, once seen. */
  get family (): string | undefined {
    return this.#shown?.family
  }

  /** How long ago an answer last confirmed the position. */
  get ageMs (): number {
    return this.#now() - this.#learnedAt
  }

  /** Takes in the position of an answer that has just come. */
  learn (position: Position, family: string): Learned {
    this.#chainId ??= position.chainId
    if (position.chainId !== this.#chainId) return 'other_chain'
    const shown = this.#shown?.position
    if (shown === undefined || !contradicts(position, shown)) {
      if (shown !== undefined && position.head.version < shown.head.version) return 'behind'
      this.#learnedAt = this.#now()
      this.#show({ position, family })
      return 'ahead'
    }
    // Of two chains under one name the one with the later time is the newer.
    if (position.head.timestampUsec < shown.head.timestampUsec) return 'other_chain'
    this.reset({ position, family })
    return 'reset'
  }

  /** Takes in a position that another replica or a kept entry proves; whether it can be of this chain. */
  hear (stamped: StampedPosition): boolean {
    const { position } = stamped
    const shown = this.#shown?.position
    if (position.chainId !== this.#chainId || (shown !== undefined && contradicts(position, shown))) return false
    if (shown === undefined || position.head.version > shown.head.version) {
      this.#shown = this.#bounded(stamped)
      this.#listener.onShown?.()
    }
    return true
  }

  /** The chain has turned out to be another one: a new generation begins, or it is to be settled which. */
  reset (stamped: StampedPosition): void {
    if (this.#isShared) this.#isSettled = false
    else this.#generation = this.next
    this.#forgetPosition()
    this.#learnedAt = this.#now()
    this.#listener.onReset?.(stamped)
    this.#show(stamped)
  }

  /** The generation for a chain that nobody has seen before: above every one that was heard of. */
  get next (): number {
    return Math.max(this.#generation, this.#highest) + 1
  }

  /** Keys by a chain and generation from now on; a position that cannot be of it is shown no more. */
  settle ({ id, generation }: Chain, head: StampedPosition | undefined, isSameChain: boolean): void {
    this.#chainId = id
    this.#generation = generation
    this.heardOf(generation)
    this.#isSettled = true
    if (!isSameChain && head === undefined) this.#forgetPosition()
    if (head === undefined || this.hear(head)) return
    this.#forgetPosition()
    this.#shown = head
    this.#listener.onShown?.()
  }

  /**
   * Forgets which chain it is, unless it is configured, and where it stood: what was remembered of it was of another.
   */
  unsettle (): void {
    this.#chainId = this.#configuredId
    this.#isSettled = false
    this.#forgetPosition()
  }

  /** How far back the history goes that live nodes can serve: shown with every head, whoever said that. */
  bound (oldest: Oldest): void {
    this.#oldest = oldest
    if (this.#shown !== undefined) this.#shown = this.#bounded(this.#shown)
  }

  #forgetPosition (): void {
    this.#shown = undefined
    this.#oldest = undefined
  }

  #bounded (stamped: StampedPosition): StampedPosition {
    const oldest = this.#oldest
    if (oldest === undefined || oldest.version === stamped.position.oldest.version) return stamped
    // Said by a node that is further than what is shown: it waits for the head that it belongs to, as no history begins
    // above its end.
    if (oldest.version > stamped.position.head.version) return stamped
    return { ...stamped, position: { ...stamped.position, oldest } }
  }

  /** Another replica has got to a generation: a new one must be higher. */
  heardOf (generation: number): void {
    this.#highest = Math.max(this.#highest, generation)
  }

  #show (stamped: StampedPosition): void {
    const before = this.#shown?.position.head.version
    this.#shown = this.#bounded(stamped)
    if (before !== undefined && stamped.position.head.version <= before) return
    this.#listener.onAhead?.()
    this.#listener.onShown?.()
  }
}

/**
 * Whether two positions cannot be of one chain: within one, version and time rise together (law 7); blocks may share a
 * time, so only a contradiction counts.
 */
export function contradicts (a: Position, b: Position): boolean {
  const versions = compare(a.head.version, b.head.version)
  const times = compare(a.head.timestampUsec, b.head.timestampUsec)
  return versions * times < 0 || (versions === 0 && times !== 0)
}

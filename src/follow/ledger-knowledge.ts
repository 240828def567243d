import { type ResponsePosition } from '../api/position.js'
import { publishedCode, type StateDigest } from '../api/state-key.js'
import { type TransactionDigest } from './transaction-digest.js'

/** Version up to which every transaction was read, with what identifies its history. */
export interface FollowedHead {
  readonly version: bigint
  /** Root of the accumulator at the version, which commits to the whole history; undefined if it is unknown. */
  readonly root: string | undefined
}

/** Part of a transaction that knowledge needs. */
export type KnownTransaction = Pick<TransactionDigest, 'version' | 'root' | 'touched' | 'touchesAll'>

/** Relation of a response to a later version; `unknown` is all that is neither proven equal nor known to differ. */
export type Validity = 'unchanged' | 'changed' | 'unknown'

/**
 * Knowledge of which keys the transactions of a range touched (law 12: unknown means changed). Validity is computed at
 * look-up, so no order of fills and pages matters.
 */
export class LedgerKnowledge {
  // Table of touches; undefined while nothing is known, because it takes 16 MB.
  #table: LastTouchedTable | undefined
  readonly #slots: number | undefined
  #head: FollowedHead | undefined
  #confirmed: ResponsePosition | undefined
  #codeTouchedAt = -1n
  #allTouchedAt = -1n

  constructor (slots?: number) {
    this.#slots = slots
  }

  /** Last version that was read; undefined while nothing is known. */
  get head (): FollowedHead | undefined {
    return this.#head
  }

  /** Stamped position that the head was read at; undefined between two pages. */
  get confirmed (): ResponsePosition | undefined {
    return this.#head?.version === this.#confirmed?.position.head.version ? this.#confirmed : undefined
  }

  /** First version whose touches are known. */
  get knownFrom (): bigint {
    return this.#table?.knownFrom ?? 0n
  }

  /** Forgets everything, and knows the transactions after a version from now on. */
  begin (head: FollowedHead): void {
    this.#table ??= new LastTouchedTable(0n, this.#slots)
    this.#table.clear(head.version + 1n)
    this.#head = head
    this.#confirmed = undefined
    this.#codeTouchedAt = this.#allTouchedAt = -1n
  }

  /** Forgets everything, because the chain may be another one. */
  clear (): void {
    this.#table = undefined
    this.#head = undefined
    this.#confirmed = undefined
  }

  /** Takes in the transaction after the head; throws for any other, since a gap would be taken for no change. */
  append ({ version, root, touched, touchesAll }: KnownTransaction): void {
    if (this.#head === undefined || version !== this.#head.version + 1n) {
      throw new RangeError('the transaction does not follow the head')
    }
    for (const key of touched) {
      if (key === publishedCode) this.#codeTouchedAt = version
      else this.#table?.touch(key, version)
    }
    if (touchesAll !== undefined) this.#allTouchedAt = version
    this.#head = { version, root }
  }

  /** Records the stamped position of a response that ends at the head. */
  confirm (stamped: ResponsePosition): void {
    this.#confirmed = stamped
  }

  /** Compares a response that was read at a version with one that would be read at another, up to the head. */
  validityAt (at: bigint, readAt: bigint, dependencies: readonly StateDigest[]): Validity {
    if (this.#head === undefined || at > this.#head.version || readAt > at) return 'unknown'
    if (readAt === at) return 'unchanged'
    if (readAt + 1n < this.knownFrom) return 'unknown'
    let validity: Validity = 'unchanged'
    for (const key of dependencies) {
      const touchedAt = this.#lastTouch(key)
      if (touchedAt <= readAt) continue
      if (touchedAt <= at) return 'changed'
      // Counts as unknown: a touch after both versions hides earlier ones, which may lie between the two versions.
      validity = 'unknown'
    }
    if (this.#allTouchedAt > readAt) return 'unknown'
    return validity
  }

  /**
   * Returns the lowest version from which a response that was read at a version is known to be the same; returns
   * `readAt` if nothing more is known.
   */
  unchangedSince (readAt: bigint, dependencies: readonly StateDigest[]): bigint {
    if (this.#head === undefined || readAt > this.#head.version) return readAt
    // Extends the interval back to the last known touch, or to the first version of which all touches are known.
    let since = this.knownFrom === 0n ? 0n : this.knownFrom - 1n
    for (const touchedAt of [this.#allTouchedAt, ...dependencies.map(key => this.#lastTouch(key))]) {
      // Extends nothing: a touch after the version hides earlier ones, which may lie before it.
      if (touchedAt > readAt) return readAt
      if (touchedAt > since) since = touchedAt
    }
    return since < readAt ? since : readAt
  }

  /** Returns the version of the transaction with a hash; undefined for one that was not read, or was forgotten. */
  versionOf (hash: StateDigest): bigint | undefined {
    return this.#table?.lastTouch(hash)
  }

  #lastTouch (key: StateDigest): bigint {
    return key === publishedCode ? this.#codeTouchedAt : this.#table?.lastTouch(key) ?? -1n
  }
}

const defaultSlots = 2 ** 19
// Beyond this share of used slots look-ups become slow, and a new generation begins.
const maxFill = 0.75

/**
 * Last version that touched each key, in two generations of fixed size (law 10: nothing grows without bound). When the
 * younger generation is full, the older one is forgotten, and knowledge begins later.
 */
export class LastTouchedTable {
  #young: Generation
  #old: Generation
  #youngFrom: bigint
  #knownFrom: bigint

  constructor (knownFrom: bigint, slots = defaultSlots) {
    this.#young = new Generation(slots)
    this.#old = new Generation(slots)
    this.#youngFrom = knownFrom
    this.#knownFrom = knownFrom
  }

  /** First version from which every touch is known. */
  get knownFrom (): bigint {
    return this.#knownFrom
  }

  /** Records a touch; versions never fall. */
  touch (key: StateDigest, version: bigint): void {
    if (this.#young.isFull) this.#forgetOld(version)
    this.#young.set(key, version)
  }

  /** Returns the last version that touched a key; undefined if none has since `knownFrom`. */
  lastTouch (key: StateDigest): bigint | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  /** Forgets everything. */
  clear (knownFrom: bigint): void {
    this.#young.clear()
    this.#old.clear()
    this.#youngFrom = knownFrom
    this.#knownFrom = knownFrom
  }

  #forgetOld (version: bigint): void {
    const forgotten = this.#old
    forgotten.clear()
    this.#knownFrom = this.#youngFrom
    this.#old = this.#young
    this.#young = forgotten
    // Earlier touches of this version are in the other generation.
    this.#youngFrom = version + 1n
  }
}

/** Hash table with open addressing; digests are their own hashes. */
class Generation {
  readonly #keys: BigUint64Array
  readonly #versions: BigUint64Array
  readonly #mask: number
  readonly #maxSize: number
  #size = 0

  constructor (slots: number) {
    this.#keys = new BigUint64Array(slots)
    this.#versions = new BigUint64Array(slots)
    this.#mask = slots - 1
    this.#maxSize = Math.floor(slots * maxFill)
  }

  get isFull (): boolean {
    return this.#size >= this.#maxSize
  }

  get (key: StateDigest): bigint | undefined {
    const slot = this.#slotOf(key)
    return this.#keys[slot] === 0n ? undefined : this.#versions[slot]
  }

  set (key: StateDigest, version: bigint): void {
    const slot = this.#slotOf(key)
    if (this.#keys[slot] === 0n) this.#size++
    this.#keys[slot] = usable(key)
    this.#versions[slot] = version
  }

  clear (): void {
    this.#keys.fill(0n)
    this.#size = 0
  }

  #slotOf (key: StateDigest): number {
    const wanted = usable(key)
    let slot = Number(BigInt.asUintN(31, wanted)) & this.#mask
    while (this.#keys[slot] !== 0n && this.#keys[slot] !== wanted) slot = (slot + 1) & this.#mask
    return slot
  }
}

/** Replaces zero, which marks a free slot. */
function usable (key: StateDigest): StateDigest {
  return key === 0n ? 2n : key
}

import { type StateDigest } from '../api/state-key.js'

const defaultSlots = 2 ** 19
// Beyond this share of used slots look-ups become slow, and a new generation begins.
const maxFill = 0.75

/**
 * Last version that touched each key, in two generations of fixed size (law 10: nothing grows without bound). When the
 * younger is full, the older is forgotten, and knowledge begins later.
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

/** Seeded random numbers, so that a run can be repeated. */
export class SeededRandom {
  #state: number

  constructor (seed: number) {
    this.#state = seed >>> 0
  }

  /** Returns a number from 0 to just below 1 (mulberry32). */
  next (): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Returns an integer from 0 to just below a limit. */
  integerBelow (limit: number): number {
    return Math.floor(this.next() * limit)
  }

  /** Returns an integer between two, inclusive. */
  integerBetween (least: number, most: number): number {
    return least + this.integerBelow(most - least + 1)
  }

  /** Returns true with this probability. */
  happens (share: number): boolean {
    return this.next() < share
  }

  /** Picks from a non-empty list. */
  pick<T> (list: readonly [T, ...T[]]): T {
    return list[this.integerBelow(list.length)] ?? list[0]
  }

  /** Returns a shuffled copy. */
  shuffled<T> (list: readonly T[]): T[] {
    return list.map(item => ({ item, at: this.next() })).sort((a, b) => a.at - b.at).map(({ item }) => item)
  }

  /** Returns an independent generator, so that draws do not depend on other draws. */
  fork (): SeededRandom {
    return new SeededRandom(this.integerBelow(2 ** 32))
  }
}

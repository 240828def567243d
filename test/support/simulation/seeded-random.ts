/** Draws that a seed decides, so that a run can be taken again. */
export class SeededRandom {
  #state: number

  constructor (seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to just below 1 (mulberry32). */
  next (): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from 0 to just below a limit. */
  integerBelow (limit: number): number {
    return Math.floor(this.next() * limit)
  }

  /** A whole number between two, both among them. */
  integerBetween (least: number, most: number): number {
    return least + this.integerBelow(most - least + 1)
  }

  /** True so often. */
  happens (share: number): boolean {
    return this.next() < share
  }

  /** One of a list that is not empty. */
  pick<T> (list: readonly [T, ...T[]]): T {
    return list[this.integerBelow(list.length)] ?? list[0]
  }

  /** The same in another order. */
  shuffled<T> (list: readonly T[]): T[] {
    return list.map(item => ({ item, at: this.next() })).sort((a, b) => a.at - b.at).map(({ item }) => item)
  }

  /** Draws of its own, which do not depend on when the others are drawn. */
  fork (): SeededRandom {
    return new SeededRandom(this.integerBelow(2 ** 32))
  }
}

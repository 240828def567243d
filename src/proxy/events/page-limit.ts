/**
 * How many events of a page a node was seen to give. Operators set how many are the most, nodes cut what is above that
 * without a word (facts, section 4), and what a node would cut must not be put together in full.
 */
export class PageLimit {
  #space = ''
  #most = 0n

  /** Takes in that a page of a chain's generation came with as many events as were asked for. */
  gaveAll (space: string, limit: bigint): void {
    if (!this.allows(space, limit)) [this.#space, this.#most] = [space, limit]
  }

  /** Takes in that no more came, though more were asked for and there are more. */
  gaveOnly (space: string, count: bigint): void {
    if (this.allows(space, count)) this.#most = count
  }

  /** Whether so many events are what nodes of a chain's generation give. */
  allows (space: string, limit: bigint): boolean {
    return space === this.#space && limit <= this.#most
  }
}

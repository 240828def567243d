/**
 * Learns the longest page of events that an upstream returns (docs/node-behaviour.md, "Page limits"). A page that an
 * upstream would cut must not be composed in full.
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

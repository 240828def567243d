/**
 * Caches known requests by a text, bounded in bytes (law 10: nothing grows without bound). When the young half is full,
 * it replaces the old half, whose unused requests are dropped: coarser than LRU, but a hit costs one lookup.
 */
export class ParsedRequestCache<Known extends object> {
  readonly #maxHalfBytes: number
  readonly #costOf: (text: string, known: Known) => number
  #young = new Map<string, Known>()
  #youngBytes = 0
  #old = new Map<string, Known>()

  constructor (maxBytes: number, costOf: (text: string, known: Known) => number) {
    this.#maxHalfBytes = maxBytes / 2
    this.#costOf = costOf
  }

  get (text: string): Known | undefined {
    const young = this.#young.get(text)
    if (young !== undefined) return young
    const old = this.#old.get(text)
    if (old !== undefined) this.put(text, old)
    return old
  }

  put (text: string, known: Known): void {
    this.#youngBytes += this.#young.has(text) ? 0 : this.#costOf(text, known)
    this.#young.set(text, known)
    if (this.#youngBytes <= this.#maxHalfBytes) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

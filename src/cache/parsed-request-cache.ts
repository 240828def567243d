// Measured (bench/NOTES.md): the read, its parts and keys, the memoised response, and a table slot; a long request
// variant is copied into several of them.
const costOfVariant = (key: string): number => 4 * key.length + 1500

/**
 * Caches parsed requests by request variant, bounded in bytes (law 10: nothing grows without bound). When the young
 * half is full, it replaces the old half, whose unused variants are dropped: coarser than LRU, but a hit costs one
 * lookup.
 */
export class ParsedRequestCache<Known extends object> {
  readonly #maxHalfBytes: number
  readonly #costOf: (key: string) => number
  #young = new Map<string, Known>()
  #youngBytes = 0
  #old = new Map<string, Known>()

  constructor (maxBytes: number, costOf = costOfVariant) {
    this.#maxHalfBytes = maxBytes / 2
    this.#costOf = costOf
  }

  get (variantKey: string): Known | undefined {
    const parsed = this.#young.get(variantKey)
    if (parsed !== undefined) return parsed
    const old = this.#old.get(variantKey)
    if (old !== undefined) this.put(variantKey, old)
    return old
  }

  put (variantKey: string, parsed: Known): void {
    this.#youngBytes += this.#young.has(variantKey) ? 0 : this.#costOf(variantKey)
    this.#young.set(variantKey, parsed)
    if (this.#youngBytes <= this.#maxHalfBytes) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
  delete (variantKey: string): void {
    this.#old.delete(variantKey)
    if (this.#young.delete(variantKey)) this.#youngBytes -= this.#costOf(variantKey)
  }
}

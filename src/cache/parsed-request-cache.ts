// Measured (bench/NOTES.md): the read, its parts and keys, the memoised response, and a table slot; a long request
// variant is copied into several of them.
const overheadBytes = 1500
const copiesPerKey = 4

/**
 * Caches parsed requests by request variant, bounded in bytes (law 10: nothing grows without bound). When the young
 * half is full, it replaces the old half, whose unused variants are dropped: coarser than LRU, but a hit costs one
 * lookup.
 */
export class ParsedRequestCache<Known extends object> {
  readonly #maxHalfBytes: number
  #young = new Map<string, Known>()
  #youngBytes = 0
  #old = new Map<string, Known>()

  constructor (maxBytes: number) {
    this.#maxHalfBytes = maxBytes / 2
  }

  get (variantKey: string): Known | undefined {
    const parsed = this.#young.get(variantKey)
    if (parsed !== undefined) return parsed
    const old = this.#old.get(variantKey)
    if (old !== undefined) this.put(variantKey, old)
    return old
  }

  put (variantKey: string, parsed: Known): void {
    this.#youngBytes += this.#young.has(variantKey) ? 0 : copiesPerKey * variantKey.length + overheadBytes
    this.#young.set(variantKey, parsed)
    if (this.#youngBytes <= this.#maxHalfBytes) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

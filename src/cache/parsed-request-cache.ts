// Measured (bench/NOTES.md): the read, its parts and keys, the last reply, and its slot in the table; a long spelling
// comes back in several of these.
const overheadBytes = 1500
const copiesPerKey = 4

/**
 * What each spelling of a read means, so that none that is often used is parsed twice; bounded in bytes (law 10). What
 * was not asked for while half of the room was filled anew is forgotten: coarser than an order of use for each, and one
 * look into one table where it is found.
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

// Measured (bench/NOTES.md): the read, its parts and keys, the last reply, and its slot in the table; a long spelling
// comes back in several of these.
const knownOverheadBytes = 1500
const timesSpelled = 4

/**
 * What each spelling of a read means, so that none that is often used is parsed twice; bounded in bytes (law 10). What
 * was not asked for while half of the room was filled anew is forgotten: coarser than an order of use for each, and one
 * look into one table where it is found.
 */
export class Spellings<Known extends object> {
  readonly #maxHalfBytes: number
  #young = new Map<string, Known>()
  #youngBytes = 0
  #old = new Map<string, Known>()

  constructor (maxBytes: number) {
    this.#maxHalfBytes = maxBytes / 2
  }

  find (spelling: string): Known | undefined {
    const known = this.#young.get(spelling)
    if (known !== undefined) return known
    const old = this.#old.get(spelling)
    if (old !== undefined) this.remember(spelling, old)
    return old
  }

  remember (spelling: string, known: Known): void {
    this.#youngBytes += this.#young.has(spelling) ? 0 : timesSpelled * spelling.length + knownOverheadBytes
    this.#young.set(spelling, known)
    if (this.#youngBytes <= this.#maxHalfBytes) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

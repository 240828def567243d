import { LRUCache } from 'lru-cache'

// Measured (bench/NOTES.md): the read, its parts and keys, the last reply, and its slot in the LRU's tables, beyond the spelling itself.
const knownOverheadBytes = 1800

/** What each spelling of a read means, so that none that is often used is parsed twice: least recently used, bounded in bytes (law 10). */
export class Spellings<Known extends object> {
  readonly #known: LRUCache<string, Known>

  constructor (maxBytes: number) {
    this.#known = new LRUCache({ maxSize: maxBytes, sizeCalculation: (_known, spelling) => spelling.length + knownOverheadBytes })
  }

  find (spelling: string): Known | undefined {
    return this.#known.get(spelling)
  }

  remember (spelling: string, known: Known): void {
    this.#known.set(spelling, known)
  }
}

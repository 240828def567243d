import { LRUCache } from 'lru-cache'
import { keysOf, type Read, type ReadKeys } from '../reads/read.js'

/** A read that was asked for in some spelling before. */
export class KnownRead {
  readonly read: Read
  #keys: { readonly id: number, readonly generation: number, readonly keys: ReadKeys } | undefined

  constructor (read: Read) {
    this.read = read
  }

  /** Its keys in a chain: made anew when the chain is another one, not for every request. */
  keysIn ({ id, generation }: { readonly id: number, readonly generation: number }): ReadKeys {
    if (this.#keys?.id !== id || this.#keys.generation !== generation) this.#keys = { id, generation, keys: keysOf(this.read, { id, generation }) }
    return this.#keys.keys
  }
}

// Measured (bench/NOTES.md): the read, its parts and keys, and its slot in the LRU's tables, beyond the spelling itself.
const knownOverheadBytes = 1400

/** Which read each spelling means, so that none that is often used is parsed twice: least recently used, bounded in bytes (law 10). */
export class Spellings {
  readonly #known: LRUCache<string, KnownRead>

  constructor (maxBytes: number) {
    this.#known = new LRUCache({ maxSize: maxBytes, sizeCalculation: (_known, spelling) => spelling.length + knownOverheadBytes })
  }

  find (spelling: string): KnownRead | undefined {
    return this.#known.get(spelling)
  }

  remember (spelling: string, read: Read): void {
    this.#known.set(spelling, new KnownRead(read))
  }
}

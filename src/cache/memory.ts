import { LRUCache } from 'lru-cache'
import { costOf, type Entry } from './entry.js'

/** What an operator watches of a tier. */
export interface MemoryTally {
  wrote (): void
  evicted (): void
}

/** The memory tier: least recently used, bounded in bytes of true cost (law 10). */
export class Memory {
  readonly #entries: LRUCache<string, Entry>
  readonly #tally: MemoryTally

  constructor (maxBytes: number, tally: MemoryTally) {
    this.#tally = tally
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: (entry, key) => costOf(key, entry),
      dispose: (_entry, _key, reason) => { if (reason === 'evict') tally.evicted() }
    })
  }

  get (key: string): Entry | undefined {
    return this.#entries.get(key)
  }

  /** Keeps an entry; one that is dearer than the whole tier is not kept. */
  set (key: string, entry: Entry): void {
    this.#entries.set(key, entry)
    if (this.#entries.has(key)) this.#tally.wrote()
  }

  get entries (): number {
    return this.#entries.size
  }

  get bytes (): number {
    return this.#entries.calculatedSize
  }
}

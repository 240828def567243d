import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress, constants, gunzip, gzip } from 'node:zlib'
import { type Coding, codings } from '../api/accept.js'
import { type Entry, type Representation, withRepresentation } from './entry.js'
import { type MemoryTier } from './memory-tier.js'

// Leaves shorter bodies uncompressed, because a coding would save less than its header line costs.
const minBytes = 256
// Half of the four threads in the libuv pool. Work beyond the limit is dropped, and the next hit requests it again.
const maxConcurrent = 2

const compress: Readonly<Record<Coding, (body: Buffer) => Promise<Buffer>>> = {
  br: async body =>
    await promisify(brotliCompress)(body, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: body.length }
    }),
  gzip: async body => await promisify(gzip)(body, { level: 6 })
}

const decompress: Readonly<Record<Coding, (body: Buffer, maxOutputLength: number) => Promise<Buffer>>> = {
  br: async (body, maxOutputLength) => await promisify(brotliDecompress)(body, { maxOutputLength }),
  gzip: async (body, maxOutputLength) => await promisify(gunzip)(body, { maxOutputLength })
}

/** Compresses each cached body once per coding in the background; hits never wait for compression. */
export class Compressor {
  readonly #memory: MemoryTier
  readonly #inFlight = new Map<string, Promise<void>>()

  constructor (memory: MemoryTier) {
    this.#memory = memory
  }

  /**
   * Selects the best available representation for codings in order of preference.
   * A missing best form is compressed for later hits.
   */
  representationOf (entry: Entry, codings: readonly Coding[]): Representation {
    const [best] = codings
    if (best === undefined || entry.body.length < minBytes) return entry
    // A caller may pass an entry from before its compression; compressing an evicted entry would be wasted work.
    const cached = this.#memory.latestOf(entry)
    if (cached !== undefined && this.needsCompression(cached, codings)) this.#startCompressing(cached, best)
    for (const coding of codings) {
      const form = (cached ?? entry).encoded[coding]
      if (form !== undefined) return form
    }
    return entry
  }

  /** Reports a preferred coding that the entry lacks. */
  needsCompression (entry: Entry, [best]: readonly Coding[]): boolean {
    return best !== undefined && entry.body.length >= minBytes && entry.encoded[best] === undefined
  }

  /** Resolves when no compression is in flight. */
  async waitUntilIdle (): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight.values())
  }

  #startCompressing (entry: Entry, coding: Coding): void {
    if (this.#inFlight.size >= maxConcurrent || this.#inFlight.has(entry.key)) return
    const work = compress[coding](entry.body)
      .then(body => this.#store(entry, coding, body))
      .finally(() => this.#inFlight.delete(entry.key))
    // Ignores a failure, which zlib has no reason for with a valid buffer: the other forms stay usable.
    this.#inFlight.set(entry.key, work.catch(() => {}))
  }

  // Stores the plain body as the form if the compressed form does not fit, so that it is not compressed again.
  #store (entry: Entry, coding: Coding, body: Buffer): void {
    if (!this.#memory.replace(entry, withRepresentation(entry, coding, body))) {
      this.#memory.replace(entry, withRepresentation(entry, coding, entry.body))
    }
  }
}

/** Finds a coding whose compressed form does not unpack to the body of its entry. */
export async function findCorruptCoding (entry: Entry): Promise<Coding | undefined> {
  for (const coding of codings) {
    const form = entry.encoded[coding]
    if (form === undefined || form.body === entry.body) continue
    const plain = await decompress[coding](form.body, entry.body.length + 1).catch(() => undefined)
    if (plain?.equals(entry.body) !== true) return coding
  }
  return undefined
}

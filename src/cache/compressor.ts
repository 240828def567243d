import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { type Coding } from '../api/coding.js'
import { type Entry, type Form, withForm } from './entry.js'
import { type Memory } from './memory.js'

// Below this a coding gains less than its header line costs.
const minBytes = 256
// Two of the four threads that Node has for such work, and no queue to speak of: who is turned away is heard at the
// next hit.
const maxUnderWay = 2

const compress: Readonly<Record<Coding, (body: Buffer) => Promise<Buffer>>> = {
  br: async body =>
    await promisify(brotliCompress)(body, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: body.length }
    }),
  gzip: async body => await promisify(gzip)(body, { level: 6 })
}

/** Makes the coded forms of entries, each once, while the hits that asked for them are served without. */
export class Compressor {
  readonly #memory: Memory
  readonly #underWay = new Map<string, Promise<void>>()

  constructor (memory: Memory) {
    this.#memory = memory
  }

  /**
   * The best form that is there for a client that takes these codings, best first; what is missing is made for those
   * who come later.
   */
  formOf (entry: Entry, codings: readonly Coding[]): Form {
    const [best] = codings
    if (best === undefined || entry.body.length < minBytes) return entry
    // A reader may come with the entry as it was before its forms were made; one that has gone is packed for nobody.
    const kept = this.#memory.latestOf(entry)
    if (kept !== undefined && this.lacks(kept, codings)) this.#make(kept, best)
    for (const coding of codings) {
      const form = (kept ?? entry).coded[coding]
      if (form !== undefined) return form
    }
    return entry
  }

  /** Whether the best form for such a client is still to be made. */
  lacks (entry: Entry, [best]: readonly Coding[]): boolean {
    return best !== undefined && entry.body.length >= minBytes && entry.coded[best] === undefined
  }

  /** Resolves when nothing is under way. */
  async idle (): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values())
  }

  #make (entry: Entry, coding: Coding): void {
    if (this.#underWay.size >= maxUnderWay || this.#underWay.has(entry.key)) return
    const work = compress[coding](entry.body)
      .then(body => {
        this.#keep(entry, coding, body)
      })
      .finally(() => {
        this.#underWay.delete(entry.key)
      })
    // Nothing that zlib is given here can make it fail; should it, the entry stays without that form.
    this.#underWay.set(entry.key, work.catch(() => {}))
  }

  // A form that there is no room for is as good as one that gains nothing: it is not tried again, and takes no hit
  // away.
  #keep (entry: Entry, coding: Coding, body: Buffer): void {
    if (!this.#memory.replace(entry, withForm(entry, coding, body))) {
      this.#memory.replace(entry, withForm(entry, coding, entry.body))
    }
  }
}

import { type Entry } from '../cache/entry.js'
import { type Holder } from '../cache/memory.js'
import { type Spellings } from '../cache/spellings.js'
import { type Chain } from '../ledger/tracker.js'
import { codingsFor } from '../reads/coding.js'
import { keysOf, type Read, type ReadKeys } from '../reads/read.js'
import { type Hit } from './outcomes.js'
import { type Parts } from './parts.js'
import { type Reply, type Wishes } from './stamp.js'
import { isOldRendering } from './window.js'

// Whatever clients think of, these take no more than a few megabytes (law 10).
const mostGiven = 10_000
const longestEncoding = 100

/** A reply, and all that it was made of beside what memory keeps. */
interface Given {
  readonly reply: Reply
  readonly entry: Entry
  readonly chain: Chain
  readonly shown: Parts['tracker']['stamped']
  readonly acceptEncoding: string | undefined
}

/** The reads that were asked for before, by their spellings. */
export type KnownReads = Spellings<KnownRead>

/** A read in a spelling that was asked for before. */
export class KnownRead implements Holder {
  readonly read: Read
  #chain: Chain | undefined
  #keys: ReadKeys | undefined
  #given: Given | undefined

  constructor (read: Read) {
    this.read = read
  }

  /** Its keys in a chain: made anew when the chain is another one, not for every request. */
  keysIn (chain: Chain): ReadKeys {
    if (this.#keys === undefined || this.#chain !== chain) this.#keys = keysOf(this.read, chain)
    this.#chain = chain
    return this.#keys
  }

  /** The reply that was given last, where nothing that it was made of has changed since: to look up and stamp once more would make the same. */
  again (parts: Parts, { ifNoneMatch, acceptEncoding }: Wishes): Reply | undefined {
    const given = this.#given
    if (given === undefined || given.shown !== parts.tracker.stamped || given.chain !== parts.tracker.chain) return undefined
    const { entry, reply } = given
    if (ifNoneMatch !== undefined || given.acceptEncoding !== acceptEncoding || isOldRendering(parts, this.read, entry)) return undefined
    return entry.expiresAtMs === undefined || parts.now() < entry.expiresAtMs ? reply : undefined
  }

  /** Remembers what was given, if it depends on nothing but what `again` looks at. */
  give (parts: Parts, { kind, entry }: Hit, { ifNoneMatch, acceptEncoding }: Wishes, reply: Reply): void {
    const { chain, stamped: shown } = parts.tracker
    // A read of what is pruned is counted each time, by how far it is from what is not.
    if (chain === undefined || kind === 'pruned' || ifNoneMatch !== undefined || (acceptEncoding?.length ?? 0) > longestEncoding) return
    if (parts.compressor.lacks(entry, codingsFor(acceptEncoding))) return
    const { holders } = parts.memory
    if (holders.size >= mostGiven && !holders.has(this)) return
    holders.add(this)
    this.#given = { reply, entry, chain, shown, acceptEncoding }
  }

  letGo (): void {
    this.#given = undefined
  }
}

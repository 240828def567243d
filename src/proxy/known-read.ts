import { type Holder } from '../cache/memory.js'
import { type Spellings } from '../cache/spellings.js'
import { type Chain } from '../chain/tracker.js'
import { codingsFor } from '../api/coding.js'
import { isRendered, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { auditAgain } from './audit.js'
import { type Hit } from './outcomes.js'
import { believedUntilMs } from './events/pages.js'
import { type Parts } from './parts.js'
import { type Reply, type Wishes } from './stamp.js'

// Whatever clients think of, these take no more than a few megabytes (law 10).
const mostGiven = 10_000
const longestEncoding = 100

/** The reads that were asked for before, by their spellings. */
export type KnownReads = Spellings<KnownRead>

/** A read in a spelling that was asked for before. */
export class KnownRead implements Holder {
  readonly read: Read
  #chain: Chain | undefined
  #keys: ReadKeys | undefined
  // What was given last, and all that it was made of beside what memory keeps; here and not in an object of its own,
  // since what a hit touches has to be fetched from far (bench/NOTES.md).
  #reply: Reply | undefined
  #shown: Parts['tracker']['stamped']
  #acceptEncoding: string | undefined
  #release: string | undefined
  #expiresAtMs = Infinity
  #askedIn = 0

  constructor (read: Read) {
    this.read = read
  }

  /** Its keys in a chain: made anew when the chain is another one, not for every request. */
  keysIn (chain: Chain): ReadKeys {
    if (this.#keys === undefined || this.#chain !== chain) {
      this.#keys = keysOf(this.read, chain)
      this.#chain = chain
      // It was of the other chain.
      this.#reply = undefined
    }
    return this.#keys
  }

  /** Tells which version is asked for, once in a while: to compare it at every hit would fetch it from far. */
  tellAsked ({ asked, tracker }: Parts): void {
    if (this.#askedIn === asked.half) return
    this.#askedIn = asked.half
    if (this.read.speaksOf !== undefined) asked.note(this.read.speaksOf, tracker.position)
  }

  /**
   * The reply that was given last, where nothing that it was made of has changed since: to look up and stamp once more
   * would make the same.
   */
  again (parts: Parts, { ifNoneMatch, acceptEncoding }: Wishes): Reply | undefined {
    const { tracker, nodes, now } = parts
    if (
      this.#shown !== tracker.stamped || this.#chain !== tracker.chain || ifNoneMatch !== undefined ||
      this.#acceptEncoding !== acceptEncoding
    ) return undefined
    // Whether it can be had in a rendering of today is a question of its own.
    if (this.#release !== undefined && nodes.isGone(this.#release)) return undefined
    if (this.#reply === undefined || (this.#expiresAtMs !== Infinity && now() >= this.#expiresAtMs)) return undefined
    if (this.#keys !== undefined) auditAgain(parts, this.read, this.#keys)
    return this.#reply
  }

  /** Remembers what was given, if it depends on nothing but what `again` looks at. */
  give (parts: Parts, { kind, entry }: Hit, { ifNoneMatch, acceptEncoding }: Wishes, reply: Reply): void {
    const { chain, stamped } = parts.tracker
    // A read of what is pruned is counted each time, by how far it is from what is not.
    if (
      chain === undefined || kind === 'pruned' || ifNoneMatch !== undefined ||
      (acceptEncoding?.length ?? 0) > longestEncoding
    ) return
    if (parts.compressor.lacks(entry, codingsFor(acceptEncoding))) return
    const { holders } = parts.memory
    if (holders.size >= mostGiven && !holders.has(this)) return
    holders.add(this)
    this.keysIn(chain)
    this.#reply = reply
    this.#shown = stamped
    this.#acceptEncoding = acceptEncoding
    this.#release = isRendered(this.read, entry.status) ? entry.release : undefined
    this.#expiresAtMs = Math.min(entry.expiresAtMs ?? Infinity, believedUntilMs(parts, this.read, chain))
  }

  letGo (): void {
    this.#reply = undefined
  }
}

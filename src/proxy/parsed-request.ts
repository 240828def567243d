import { type MemoHolder } from '../cache/memory-tier.js'
import { type ParsedRequestCache } from '../cache/parsed-request-cache.js'
import { type Chain } from '../chain/tracker.js'
import { readAcceptEncoding } from '../api/coding.js'
import { isRendered, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { auditRepeatedHit } from './audit.js'
import { type Hit } from './outcomes.js'
import { streamKnownUntilMs } from './events/event-page-lookup.js'
import { type ProxyContext } from './proxy-context.js'
import { type ClientResponse, type ResponsePreferences } from './stamper.js'

// Whatever clients think of, these take no more than a few megabytes (law 10).
const maxMemos = 10_000
const maxAcceptEncodingLength = 100

/** The reads that were asked for before, by their spellings. */
export type ParsedRequests = ParsedRequestCache<ParsedRequest>

/** A read in a spelling that was asked for before. */
export class ParsedRequest implements MemoHolder {
  readonly read: Read
  #chain: Chain | undefined
  #keys: ReadKeys | undefined
  // What was given last, and all that it was made of beside what memory keeps; here and not in an object of its own,
  // since what a hit touches has to be fetched from far (bench/NOTES.md).
  #memo: ClientResponse | undefined
  #servedPosition: ProxyContext['tracker']['stamped']
  #acceptEncoding: string | undefined
  #release: string | undefined
  #expiresAtMs = Infinity
  #recordedInHalf = 0

  constructor (read: Read) {
    this.read = read
  }

  /** Its keys in a chain: made anew when the chain is another one, not for every request. */
  keysIn (chain: Chain): ReadKeys {
    if (this.#keys === undefined || this.#chain !== chain) {
      this.#keys = keysOf(this.read, chain)
      this.#chain = chain
      // It was of the other chain.
      this.#memo = undefined
    }
    return this.#keys
  }

  /** Tells which version is asked for, once in a while: to compare it at every hit would fetch it from far. */
  recordRequestedVersion ({ lowestRequested, tracker }: ProxyContext): void {
    if (this.#recordedInHalf === lowestRequested.half) return
    this.#recordedInHalf = lowestRequested.half
    if (this.read.requestedVersion !== undefined) lowestRequested.record(this.read.requestedVersion, tracker.position)
  }

  /**
   * The reply that was given last, where nothing that it was made of has changed since: to look up and stamp once more
   * would make the same.
   */
  getMemo (context: ProxyContext, { ifNoneMatch, acceptEncoding }: ResponsePreferences): ClientResponse | undefined {
    const { tracker, upstreamPool, now } = context
    if (
      this.#servedPosition !== tracker.stamped || this.#chain !== tracker.chain || ifNoneMatch !== undefined ||
      this.#acceptEncoding !== acceptEncoding
    ) return undefined
    // Whether it can be had in a rendering of today is a question of its own.
    if (this.#release !== undefined && upstreamPool.isRetiredRelease(this.#release)) return undefined
    if (this.#memo === undefined || (this.#expiresAtMs !== Infinity && now() >= this.#expiresAtMs)) return undefined
    if (this.#keys !== undefined) auditRepeatedHit(context, this.read, this.#keys)
    return this.#memo
  }

  /** Remembers what was given, if it depends on nothing but what `again` looks at. */
  memoise (
    context: ProxyContext,
    { kind, entry }: Hit,
    { ifNoneMatch, acceptEncoding }: ResponsePreferences,
    response: ClientResponse
  ): void {
    const { chain, stamped } = context.tracker
    // A read of what is pruned is counted each time, by how far it is from what is not.
    if (
      chain === undefined || kind === 'pruned' || ifNoneMatch !== undefined ||
      (acceptEncoding?.length ?? 0) > maxAcceptEncodingLength
    ) return
    if (context.compressor.needsCompression(entry, readAcceptEncoding(acceptEncoding))) return
    const { memoHolders } = context.memory
    if (memoHolders.size >= maxMemos && !memoHolders.has(this)) return
    memoHolders.add(this)
    this.keysIn(chain)
    this.#memo = response
    this.#servedPosition = stamped
    this.#acceptEncoding = acceptEncoding
    this.#release = isRendered(this.read, entry.status) ? entry.release : undefined
    this.#expiresAtMs = Math.min(entry.expiresAtMs ?? Infinity, streamKnownUntilMs(context, this.read, chain))
  }

  dropMemo (): void {
    this.#memo = undefined
  }
}

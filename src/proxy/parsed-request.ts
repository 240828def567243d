import { type IncomingHttpHeaders } from 'node:http'
import { type MemoHolder } from '../cache/memory-tier.js'
import { type Space } from '../chain/space.js'
import { readAcceptEncoding } from '../api/accept.js'
import { type Position } from '../api/position.js'
import { isRenderedByRelease, type Read } from '../api/read.js'
import { auditRepeatedHit, type AuditParts } from './audit.js'
import { followedHitName, type Hit, hitNames, type OutcomeName } from './outcomes.js'
import { pinTo, type PinnedRead } from './pinned-read.js'
import { type ClientResponse, type ResponsePreferences } from './response-builder.js'
import { type Compressor } from '../cache/compressor.js'
import { type LowestRecentRequest } from './pruned-reads.js'

/** Parts that a memoised response depends on. */
export type MemoParts = AuditParts & {
  readonly compressor: Compressor,
  /** Records the versions that clients request. */
  readonly lowestRequested: LowestRecentRequest
}

// Limits memoised responses to a few megabytes, whatever clients send (law 10: nothing grows without bound).
const maxMemos = 10_000
const maxAcceptEncodingLength = 100
// Share of the memory tier's size that known requests may take in addition to the tier.
const knownRequestShare = 3 / 16
const minKnownRequestBytes = 6 * 1024 ** 2

// Estimates bytes as measured (bench/NOTES.md). A request variant has its read, its keys, the memoised response, a
// table slot, and several copies of its text; known bytes have what was sent.
const costOf = (text: string, { sent }: KnownRequest): number =>
  sent === undefined ? 4 * text.length + 1500 : 2 * text.length + 400

/** A request that memory answered before. */
export interface KnownRequest {
  readonly parsed: ParsedRequest
  /**
   * Parts of a request that is known by its bytes; undefined for a request variant, which covers many forms of bytes.
   */
  readonly sent?: { readonly method: string, readonly url: string, readonly headers: IncomingHttpHeaders }
}

/**
 * Caches known requests by request variant and by the text of their bytes; the two never collide, because their first
 * line breaks differ. Bounded in bytes (law 10: nothing grows without bound): a full young half replaces the old half,
 * whose unused requests are dropped. Halves are coarser than LRU, but a hit costs one lookup.
 */
export class KnownRequestCache {
  readonly #maxHalfBytes: number
  #young = new Map<string, KnownRequest>()
  #youngBytes = 0
  #old = new Map<string, KnownRequest>()

  constructor (maxBytes: number) {
    this.#maxHalfBytes = maxBytes / 2
  }

  get (text: string): KnownRequest | undefined {
    const young = this.#young.get(text)
    if (young !== undefined) return young
    const old = this.#old.get(text)
    if (old !== undefined) this.put(text, old)
    return old
  }

  put (text: string, known: KnownRequest): void {
    this.#youngBytes += this.#young.has(text) ? 0 : costOf(text, known)
    this.#young.set(text, known)
    if (this.#youngBytes <= this.#maxHalfBytes) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

/** Builds the cache of known requests, sized as a share of the memory tier. */
export function knownRequestCache (memoryTierBytes: number): KnownRequestCache {
  return new KnownRequestCache(Math.max(minKnownRequestBytes, memoryTierBytes * knownRequestShare))
}

/** Read of one request variant, with its keys and its memoised last response. */
export class ParsedRequest implements MemoHolder {
  readonly read: Read
  #space: Space | undefined
  #pinned: PinnedRead | undefined
  // Memoised response and the state that it depends on, as fields: a nested object costs every hit another CPU cache
  // miss (bench/NOTES.md).
  #memo: ClientResponse | undefined
  #servedPosition: MemoParts['tracker']['stamped']
  #acceptEncoding: string | undefined
  #release: string | undefined
  #expiresAtMs = Infinity
  #followedAt: Position | undefined
  #recordedInHalf = 0

  constructor (read: Read) {
    this.read = read
  }

  /** Returns the read pinned to a chain, computed once per chain. */
  pinnedTo (space: Space): PinnedRead {
    if (this.#pinned === undefined || this.#space !== space) {
      this.#pinned = pinTo(space, this.read)
      this.#space = space
      // Drops the memo, which belongs to the previous chain.
      this.#memo = undefined
    }
    return this.#pinned
  }

  /** Records the requested version once per half period, because a comparison on every hit costs a CPU cache miss. */
  recordRequestedVersion ({ lowestRequested, tracker }: MemoParts): void {
    if (this.#recordedInHalf === lowestRequested.half) return
    this.#recordedInHalf = lowestRequested.half
    if (this.read.requestedVersion !== undefined) lowestRequested.record(this.read.requestedVersion, tracker.position)
  }

  /**
   * Returns the memoised response; undefined if it has expired, or if position, chain, release or request headers
   * differ.
   */
  getMemo (context: MemoParts, { ifNoneMatch, acceptEncoding }: ResponsePreferences): ClientResponse | undefined {
    const { tracker, releases, now } = context
    if (
      this.#servedPosition !== tracker.stamped || this.#space !== tracker.space || ifNoneMatch !== undefined ||
      this.#acceptEncoding !== acceptEncoding
    ) return undefined
    if (tracker.sharedHeads?.has(this.#servedPosition?.position.head.version) === false) return undefined
    // Leaves a retired rendering to a full look-up, which may refresh it (law 8: rendering can change, history cannot).
    if (this.#release !== undefined && releases.isRetiredRelease(this.#release)) return undefined
    if (this.#memo === undefined || (this.#expiresAtMs !== Infinity && now() >= this.#expiresAtMs)) return undefined
    // Checks the followed head's age, since it may be too old for this read.
    if (this.#followedAt !== undefined) {
      const { follower } = context
      if (follower?.headFor(now())?.position.head.version !== this.#followedAt.head.version) return undefined
      follower.recordSaved()
    }
    if (this.#pinned !== undefined) auditRepeatedHit(context, this.#pinned, this.#followedAt !== undefined)
    return this.#memo
  }

  /** Outcome of the memoised response. */
  get memoOutcome (): OutcomeName {
    return this.#followedAt === undefined ? hitNames.memory : followedHitName
  }

  /** Memoises a response that depends only on the state that `getMemo` compares. */
  memoise (
    context: MemoParts,
    { kind, entry, followedAt }: Hit,
    { ifNoneMatch, acceptEncoding }: ResponsePreferences,
    response: ClientResponse
  ): void {
    const { space, stamped } = context.tracker
    // Memoises no pruned hit, because each is counted with its distance, which needs a full look-up.
    if (
      space === undefined || kind === 'pruned' || ifNoneMatch !== undefined ||
      (acceptEncoding?.length ?? 0) > maxAcceptEncodingLength
    ) return
    if (context.compressor.needsCompression(entry, readAcceptEncoding(acceptEncoding))) return
    const { memoHolders } = context.memory
    if (memoHolders.size >= maxMemos && !memoHolders.has(this)) return
    memoHolders.add(this)
    this.#memo = response
    this.#servedPosition = stamped
    this.#acceptEncoding = acceptEncoding
    this.#followedAt = followedAt
    this.#release = isRenderedByRelease(this.read, entry.status) ? entry.release : undefined
    this.#expiresAtMs = entry.expiresAtMs ?? Infinity
  }

  dropMemo (): void {
    this.#memo = undefined
  }
}

/** Parts of a request that identify its parsed form; the body only if it was read. */
export interface VariantParts {
  readonly method: string
  readonly target: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer | undefined
}

// Limits target, Accept and Content-Type in characters; longer requests are parsed each time.
const maxVariantLength = 1024

/** Largest body in bytes that a variant key contains. */
export const maxMemoisedBodyBytes = 2048

/**
 * Returns one text for all parts that decide the read; undefined if the request is too large to remember. Targets
 * contain no blanks and headers no line breaks, so different requests never share a text.
 */
export function variantKeyOf ({ method, target, accept, contentType, body }: VariantParts): string | undefined {
  const head = accept === undefined ? target : `${accept} ${target}`
  if (head.length > maxVariantLength) return undefined
  // Shares one text between GET and HEAD, whose responses differ only in the body.
  if (method === 'GET' || method === 'HEAD') return head
  if (
    method !== 'POST' || contentType === undefined || contentType.length > maxVariantLength || body === undefined ||
    body.length > maxMemoisedBodyBytes
  ) return undefined
  return `${contentType}\n${head}\n${body.toString('latin1')}`
}

import { clientShare } from '../clients/client-shares.js'

/** Bytes that one holder has taken from the budget; a second release does nothing. */
export interface HeldBytes {
  release(): void
}

/** Kinds of work that hold a buffer: fetches, responses, and writes to a lower tier. */
type HolderKind = 'fetch' | 'response' | 'write'

/** Buffer outside the cache, counted once however much work holds it. */
interface HeldBuffer extends Record<HolderKind, number> {
  readonly clientId: string | undefined
}

/** Bytes that one streamed response takes: its read-ahead, a chunk of the upstream and the client's socket buffer. */
export const bytesPerStream = 128 * 1024

// Share beyond which responses are streamed instead of stored; the rest is for streams and small responses.
const bufferedShare = 3 / 4
// Share that writes to Redis may take, because writes can wait or be dropped, and responses cannot.
const queuedShare = 1 / 8
// Reports the budget as exhausted for this long, since requests come and go between two looks at it.
const reportForMs = 10_000

/**
 * Budget for bytes outside the cache (law 10: nothing grows without bound): responses gathered, streamed or being sent,
 * request bodies, and writes to Redis.
 */
export class InFlightBytes {
  /** Size of the budget. */
  maxBytes: number
  readonly #now: () => number
  readonly #buffers = new Map<ArrayBufferLike, HeldBuffer>()
  readonly #bytesOfClient = new Map<string, number>()
  #bytes = 0
  readonly #bytesOf: Record<HolderKind, number> = { fetch: 0, response: 0, write: 0 }
  #exhaustedAtMs = -Infinity

  constructor (maxBytes: number, now: () => number) {
    this.maxBytes = maxBytes
    this.#now = now
  }

  get bytes (): number {
    return this.#bytes
  }

  /** Bytes that clients may leave unread for more than some seconds. */
  get maxUnreadBytes (): number {
    return this.maxBytes * clientShare
  }

  /** True for ten seconds after a response was not stored, or a request rejected, for want of bytes. */
  get isExhausted (): boolean {
    return this.#now() - this.#exhaustedAtMs < reportForMs
  }

  /**
   * True if a client may start a fetch; a client with over half of the budget may not while bytes are short. Hits never
   * count: a client that reads hits slowly must not cost other clients their misses.
   */
  admits (clientId: string | undefined): boolean {
    const { fetch } = this.#bytesOf
    const isShort = fetch >= this.maxBytes * bufferedShare
    const hasShare = this.#ofClient(clientId) < this.maxBytes * clientShare
    return this.#count(fetch < this.maxBytes && (!isShort || hasShare))
  }

  /**
   * True if `more` bytes may be buffered beside `held`, as is always so for a body shorter than a stream's buffers. A
   * client's bodies together take at most half of the budget, so that all its further responses can be streamed.
   */
  canBuffer (more: number, held = 0, clientId?: string): boolean {
    const ofClient = this.#ofClient(clientId)
    const hasShare = ofClient <= held || ofClient + more <= this.maxBytes * clientShare
    return this.#count(
      held + more <= bytesPerStream || (hasShare && this.#bytes + more <= this.maxBytes * bufferedShare)
    )
  }

  /** Takes bytes that are in no buffer of their own. */
  take (bytes: number, clientId: string | undefined): HeldBytes {
    this.#add('fetch', bytes, clientId)
    this.#bytes += bytes
    return once(() => {
      this.#add('fetch', -bytes, clientId)
      this.#bytes -= bytes
    })
  }

  /** Holds the buffer of a fetched body. */
  holdFetched (buffer: ArrayBufferLike, clientId: string | undefined): HeldBytes {
    return this.#hold(buffer, 'fetch', clientId)
  }

  /** Holds the buffer of a body that is being sent, fetched for this response or not. */
  holdSent (buffer: ArrayBufferLike): HeldBytes {
    return this.#hold(buffer, 'response')
  }

  /** Holds the buffer of a write to a lower tier; undefined beyond the share of writes, or if bytes are short. */
  holdQueued (buffer: ArrayBufferLike): HeldBytes | undefined {
    const known = this.#buffers.get(buffer)
    const { write } = this.#bytesOf
    // Admits the first write in any case, since an entry may be larger than the share.
    const hasShare = write === 0 || write + buffer.byteLength <= this.maxBytes * queuedShare
    const more = known === undefined ? buffer.byteLength : 0
    const isGranted = (known?.write ?? 0) > 0 ||
      (hasShare && this.#bytes + more <= this.maxBytes * bufferedShare)
    return isGranted ? this.#hold(buffer, 'write') : undefined
  }

  #hold (buffer: ArrayBufferLike, kind: HolderKind, clientId?: string): HeldBytes {
    const held = this.#buffers.get(buffer) ?? { clientId, fetch: 0, response: 0, write: 0 }
    if (held.fetch + held.response + held.write === 0) {
      this.#buffers.set(buffer, held)
      this.#bytes += buffer.byteLength
    }
    if (++held[kind] === 1) this.#add(kind, buffer.byteLength, held.clientId)
    return once(() => {
      if (--held[kind] === 0) this.#add(kind, -buffer.byteLength, held.clientId)
      if (held.fetch + held.response + held.write > 0) return
      this.#buffers.delete(buffer)
      this.#bytes -= buffer.byteLength
    })
  }

  #ofClient (clientId: string | undefined): number {
    return clientId === undefined ? 0 : this.#bytesOfClient.get(clientId) ?? 0
  }

  #add (kind: HolderKind, bytes: number, clientId: string | undefined): void {
    this.#bytesOf[kind] += bytes
    if (kind !== 'fetch' || clientId === undefined) return
    const left = this.#ofClient(clientId) + bytes
    if (left === 0) this.#bytesOfClient.delete(clientId)
    else this.#bytesOfClient.set(clientId, left)
  }

  #count (isGranted: boolean): boolean {
    if (!isGranted) this.#exhaustedAtMs = this.#now()
    return isGranted
  }
}

/** Response to a client; its end frees the bytes of the request. */
interface EndingResponse {
  readonly destroyed: boolean
  once(event: 'close', listener: () => void): unknown
}

/** Bytes of one client request: what was fetched for it is held until its response is over. */
export class RequestBytes {
  readonly clientId: string
  readonly #inFlight: InFlightBytes | undefined
  readonly #response: EndingResponse | undefined
  #held: HeldBytes[] | undefined
  #isOver = false

  constructor (clientId: string, inFlight?: InFlightBytes, response?: EndingResponse) {
    this.clientId = clientId
    this.#inFlight = inFlight
    this.#response = response
  }

  /** Takes over bytes; releases them at once if the response is over. */
  add (held: HeldBytes): void {
    if (this.#isOver || this.#response?.destroyed === true) {
      held.release()
      return
    }
    if (this.#held === undefined) this.#response?.once('close', () => this.end())
    this.#held ??= []
    this.#held.push(held)
  }

  /**
   * Counts a body that waits, for its end or a turn. A body that came whole in one chunk is not counted while it passes
   * through.
   */
  holdWaiting (body: Buffer): void {
    if (this.#inFlight !== undefined) this.add(this.#inFlight.holdFetched(body.buffer, this.clientId))
  }

  /** Releases everything; the response is over. */
  end (): void {
    this.#isOver = true
    for (const held of this.#held?.splice(0) ?? []) held.release()
  }
}

function once (release: () => void): HeldBytes {
  let isReleased = false
  return {
    release: () => {
      if (isReleased) return
      isReleased = true
      release()
    }
  }
}

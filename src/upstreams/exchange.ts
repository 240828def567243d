import { Readable } from 'node:stream'
import { type Dispatcher } from 'undici'
import { type ResponseHeaders } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type HeldBytes, type InFlightBytes, bytesPerStream } from './in-flight-bytes.js'
import { isDeadConnection } from './upstream-failure.js'
import { type RequestSlot } from './upstream-limiter.js'
import { type CancelSignal, type UpstreamRequest } from './upstream-request.js'

/** Status, headers, and the body or its beginning. */
export type ReceivedResponse = Pick<UpstreamResponse, 'status' | 'headers' | 'body' | 'rest' | 'isOverBudget'>

// Buffers errors up to this size even for streamed responses, because an error's body decides if another upstream is
// tried.
const maxErrorBytes = 65_536
// Size from which a body gets a buffer of its own, because shorter ones mostly come in one piece.
const minAllocatedBytes = 65_536

/** Part of an upstream's connections that an exchange uses. */
export interface ExchangeConnections {
  /** Bodies beyond this are streamed instead of buffered. */
  readonly maxBufferedBytes: number
  /** Budget that bodies take their bytes from; absent in a process that serves no clients. */
  readonly inFlight?: InFlightBytes | undefined
  dispatch(request: UpstreamRequest, handler: Dispatcher.DispatchHandler): void
}

/**
 * One request under way: it holds its slot to the end, and receives the response. Buffers the body up to a limit, then
 * streams. Handles undici's callbacks directly, since a stream per response costs too much.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  /** Rejects as soon as it is cancelled, even while the request waits for a connection. */
  readonly received: Promise<ReceivedResponse>
  readonly #connections: ExchangeConnections
  readonly #request: UpstreamRequest
  readonly #slot: RequestSlot | undefined
  readonly #signal: CancelSignal | undefined
  readonly #onAbort = (): void => {
    if (this.#signal !== undefined) this.cancel(this.#signal.reason)
  }

  #body = new BodyChunks()
  #allocatedBytes = 0
  #held: HeldBytes | undefined
  #isOverBudget = false
  #deferred: { resolve: (received: ReceivedResponse) => void, reject: (error: unknown) => void } | undefined
  #controller: Dispatcher.DispatchController | undefined
  #head: Pick<ReceivedResponse, 'status' | 'headers'> | undefined
  #maxBufferedBytes = Infinity
  #announcedBytes = NaN
  #rest: Readable | undefined
  #cancelReason: Error | undefined
  #isDone = false
  #retriesLeft: number

  /** Sends the request; its slot is released when the exchange ends, fails or is cancelled by the signal. */
  constructor (connections: ExchangeConnections, request: UpstreamRequest, slot?: RequestSlot, signal?: CancelSignal) {
    this.#connections = connections
    this.#request = request
    this.#slot = slot
    this.#signal = signal
    this.#retriesLeft = request.isIdempotent ? 1 : 0
    this.received = new Promise((resolve, reject) => {
      this.#deferred = { resolve, reject }
    })
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    connections.dispatch(request, this)
    // Cancels at once if the signal came while the request waited for its slot.
    if (signal?.aborted === true) this.#onAbort()
  }

  /** Cancels; a request still waiting for a connection is aborted when it gets one. */
  cancel (reason: Error): void {
    if (this.#isDone || this.#cancelReason !== undefined) return
    this.#cancelReason = reason
    this.#deferred?.reject(reason)
    if (this.#rest === undefined) this.#controller?.abort(reason)
    else this.#rest.destroy(reason)
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#cancelReason === undefined) this.#slot?.markSent()
    else controller.abort(this.#cancelReason)
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    // Skips 1xx responses.
    if (status < 200) return
    this.#head = { status, headers }
    const { isStreamed, method } = this.#request
    // Expects no body in a response to HEAD, whatever Content-Length says.
    const isBodiless = method === 'HEAD'
    // Streams a body as long as its reader takes, and keeps the slot until the body's end.
    const maxBufferedBytes = isStreamed === true ? 0 : this.#connections.maxBufferedBytes
    this.#maxBufferedBytes = isBodiless ? Infinity : Math.max(maxBufferedBytes, status >= 400 ? maxErrorBytes : 0)
    // Streams at once if Content-Length exceeds the limit.
    const length = Number(headers['content-length'])
    this.#announcedBytes = length
    if (length > this.#maxBufferedBytes) return this.#switchToStream(controller)
    if (!(length > minAllocatedBytes) || isBodiless) return
    if (!this.#canBuffer(length)) return this.#switchToStream(controller)
    // Allocates one buffer for the whole body, because joining chunks would take its bytes twice.
    const buffer = Buffer.allocUnsafeSlow(length)
    this.#allocatedBytes = length
    this.#body = new BodyChunks(buffer)
    this.#hold(buffer)
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#rest !== undefined) {
      if (!this.#rest.push(chunk)) controller.pause()
      return
    }
    // Counts no body that came whole in one chunk, because it goes through to the client's socket at once.
    if (chunk.length === this.#announcedBytes && this.#body.length === 0 && this.#allocatedBytes === 0) {
      this.#body.add(chunk)
      return
    }
    const isOverBudget = this.#allocatedBytes === 0 && !this.#canBuffer(chunk.length)
    this.#body.add(chunk)
    if (this.#body.length > this.#allocatedBytes) {
      this.#replaceHeld(this.#connections.inFlight?.take(this.#body.length, this.#clientId))
    }
    if (isOverBudget || this.#body.length > this.#maxBufferedBytes) this.#switchToStream(controller)
  }

  onResponseEnd (): void {
    this.#resolve(this.#rest)
    this.#finish()
    this.#rest?.push(null)
  }

  onResponseError (_controller: Dispatcher.DispatchController, error: Error): void {
    // Retries once if a reused connection died: the upstream may have closed it unseen (RFC 9110, section 9.2.2). New
    // connections get no retry.
    const mayRetry = this.#head === undefined && this.#cancelReason === undefined && isDeadConnection(error)
    if (mayRetry && this.#retriesLeft-- > 0) return this.#connections.dispatch(this.#request, this)
    this.#finish()
    this.#deferred?.reject(error)
    this.#rest?.destroy(error)
  }

  #finish (): void {
    this.#isDone = true
    this.#held?.release()
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#slot?.release()
  }

  #resolve (rest: Readable | undefined): void {
    if (this.#head === undefined || this.#deferred === undefined) return
    const { status, headers } = this.#head
    const body = this.#takeBody()
    this.#deferred.resolve({ status, headers, body, rest, isOverBudget: this.#isOverBudget })
    this.#deferred = undefined
  }

  /** Returns the buffered body, and hands its bytes over to the client request. */
  #takeBody (): Buffer {
    const { isJoined } = this.#body
    const body = this.#body.join()
    if (isJoined) this.#hold(body)
    const bytes = this.#request.client?.bytes
    if (this.#held !== undefined && bytes !== undefined) {
      bytes.add(this.#held)
      this.#held = undefined
    }
    this.#body = new BodyChunks()
    return body
  }

  get #clientId (): string | undefined {
    return this.#request.client?.bytes?.clientId
  }

  #hold (body: Buffer): void {
    this.#replaceHeld(this.#connections.inFlight?.holdFetched(body.buffer, this.#clientId))
  }

  #replaceHeld (held: HeldBytes | undefined): void {
    this.#held?.release()
    this.#held = held
  }

  #canBuffer (more: number): boolean {
    this.#isOverBudget = this.#connections.inFlight?.canBuffer(more, this.#body.length, this.#clientId) === false
    return !this.#isOverBudget
  }

  #switchToStream (controller: Dispatcher.DispatchController): void {
    // Applies back-pressure: receives nothing more until the reader reads.
    controller.pause()
    const rest = new Readable({
      // Bounds the memory of a slow reader, since the default differs between Node versions.
      highWaterMark: 16_384,
      read: () => controller.resume(),
      destroy: (error, done) => {
        if (!this.#isDone) controller.abort(error ?? new Error('body discarded'))
        done(error)
      }
    })
    // Listens for the error that destroying an unread complete body emits, which would otherwise end the process.
    rest.on('error', () => {})
    this.#rest = rest
    this.#resolve(rest)
    // Takes the bytes of the body's buffers from the budget until the exchange is over.
    const length = Number(this.#head?.headers['content-length'])
    this.#replaceHeld(
      this.#connections.inFlight?.take(length < bytesPerStream ? Math.max(0, length) : bytesPerStream, this.#clientId)
    )
    this.#slot?.markStreaming(reason => rest.destroy(reason))
  }
}

// Keeps larger chunks as they came, because copying costs more than the object that each chunk needs.
const minOwnBytes = 8192
const minSlabBytes = 8192
const maxSlabBytes = 65_536
// Copies a chunk if the read that it came in is more than this many times larger, because the chunk would keep the
// whole read.
const maxWaste = 4

/**
 * Collects a body, and copies small chunks together: a megabyte in chunks of one byte would take hundreds (law 10:
 * nothing grows without bound).
 */
export class BodyChunks {
  #chunks: Buffer[] = []
  #slab: Buffer | undefined
  #slabUsed = 0
  #length = 0

  /** Takes a buffer for a body of known length. */
  constructor (slab?: Buffer) {
    this.#slab = slab
  }

  get length (): number {
    return this.#length
  }

  /** True when `join` makes a buffer of its own. */
  get isJoined (): boolean {
    return this.#chunks.length > 1 || this.#slab !== undefined
  }

  add (chunk: Buffer): void {
    const isLarge = chunk.length >= minOwnBytes && chunk.length * maxWaste >= chunk.buffer.byteLength
    // Fills an open slab first, so that small chunks between large ones waste none.
    if (this.#slab === undefined && (isLarge || this.#length === 0)) this.#chunks.push(chunk)
    else this.#copy(chunk)
    this.#length += chunk.length
  }

  /** Returns the body: its only chunk or slab as it is, else all of them in a new buffer. */
  join (): Buffer {
    this.#endSlab()
    const [first, second] = this.#chunks
    return first !== undefined && second === undefined ? first : Buffer.concat(this.#chunks, this.#length)
  }

  #copy (chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      // Grows with the body, since most bodies in several chunks are short.
      this.#slab ??= Buffer.allocUnsafeSlow(Math.min(maxSlabBytes, Math.max(minSlabBytes, this.#length)))
      const copied = chunk.copy(this.#slab, this.#slabUsed, from)
      this.#slabUsed += copied
      from += copied
      if (this.#slabUsed === this.#slab.length) this.#endSlab()
    }
  }

  #endSlab (): void {
    if (this.#slab === undefined) return
    this.#chunks.push(this.#slab.subarray(0, this.#slabUsed))
    this.#slab = undefined
    this.#slabUsed = 0
  }
}

/** True for a transfer coding other than chunked, which the HTTP client decodes; a TE header is never sent. */
export function isTransferCoded ({ 'transfer-encoding': coding }: ResponseHeaders): boolean {
  return coding !== undefined && String(coding).trim().toLowerCase() !== 'chunked'
}

/** True if the head says where the body ends. */
export function isFramed (headers: ResponseHeaders): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Returns the number of bytes of a body; for a streamed body, the number that its head announces. */
export function bytesOf ({ body, rest, headers }: ReceivedResponse): number {
  const announced = rest === undefined ? undefined : headers['content-length']
  return typeof announced === 'string' && /^\d{1,15}$/.test(announced) ? Number(announced) : body.length
}

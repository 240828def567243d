import { Readable } from 'node:stream'
import { type Dispatcher } from 'undici'
import { type ResponseHeaders } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'

/** Status, headers, and the body or its beginning. */
export type ReceivedResponse = Pick<UpstreamResponse, 'status' | 'headers' | 'body' | 'rest'>

// Buffers errors up to this size even for streamed responses: their body decides whether another upstream is tried.
const maxErrorBytes = 65_536

/** Settings for receiving one response. */
export interface ResponseReceiverOptions {
  /** Undefined for HEAD, whose Content-Length announces no body. */
  readonly maxBufferedBytes: number | undefined
  /** Runs each time the request goes out, retries included. */
  readonly onSent: () => void
  /** Runs on a failure before the response headers; returns true where the request was sent again. */
  readonly retry: (error: Error) => boolean
  /** Runs when the exchange is over, so that slot and connection are free. */
  readonly onDone: () => void
}

/**
 * Receives one response: buffers the body up to a limit, then streams. Handles undici's callbacks directly, since a
 * stream per response costs too much.
 */
export class ResponseReceiver implements Dispatcher.DispatchHandler {
  /** Rejects as soon as it is cancelled, even while the request waits for a connection. */
  readonly received: Promise<ReceivedResponse>
  readonly #options: ResponseReceiverOptions
  readonly #chunks: Buffer[] = []
  #deferred: { resolve: (received: ReceivedResponse) => void, reject: (error: unknown) => void } | undefined
  #controller: Dispatcher.DispatchController | undefined
  #head: Pick<ReceivedResponse, 'status' | 'headers'> | undefined
  #size = 0
  #maxBufferedBytes = Infinity
  #rest: Readable | undefined
  #cancelReason: Error | undefined
  #isDone = false

  constructor (options: ResponseReceiverOptions) {
    this.#options = options
    this.received = new Promise((resolve, reject) => {
      this.#deferred = { resolve, reject }
    })
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
    if (this.#cancelReason === undefined) this.#options.onSent()
    else controller.abort(this.#cancelReason)
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    // Skips 1xx responses.
    if (status < 200) return
    this.#head = { status, headers }
    const { maxBufferedBytes } = this.#options
    this.#maxBufferedBytes = maxBufferedBytes === undefined
      ? Infinity
      : Math.max(maxBufferedBytes, status >= 400 ? maxErrorBytes : 0)
    // Streams at once where Content-Length exceeds the limit.
    if (Number(headers['content-length']) > this.#maxBufferedBytes) this.#switchToStream(controller)
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#rest !== undefined) {
      if (!this.#rest.push(chunk)) controller.pause()
      return
    }
    this.#chunks.push(chunk)
    this.#size += chunk.length
    if (this.#size > this.#maxBufferedBytes) this.#switchToStream(controller)
  }

  onResponseEnd (): void {
    this.#finish()
    if (this.#rest === undefined) this.#resolve(undefined)
    else this.#rest.push(null)
  }

  onResponseError (_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#head === undefined && this.#cancelReason === undefined && this.#options.retry(error)) return
    this.#finish()
    this.#deferred?.reject(error)
    this.#rest?.destroy(error)
  }

  #finish (): void {
    this.#isDone = true
    this.#options.onDone()
  }

  #resolve (rest: Readable | undefined): void {
    const [first, second] = this.#chunks
    const body = first !== undefined && second === undefined ? first : Buffer.concat(this.#chunks)
    if (this.#head !== undefined) {
      this.#deferred?.resolve({ status: this.#head.status, headers: this.#head.headers, body, rest })
    }
  }

  #switchToStream (controller: Dispatcher.DispatchController): void {
    // Applies back-pressure: nothing more is received until the reader reads.
    controller.pause()
    const rest = new Readable({
      // Fixed, since the default differs between Node versions; bounds the memory of a slow reader.
      highWaterMark: 16_384,
      read: () => {
        controller.resume()
      },
      destroy: (error, done) => {
        if (!this.#isDone) controller.abort(error ?? new Error('body discarded'))
        done(error)
      }
    })
    // Destroying an unread complete body emits an error; without a listener it would end the process.
    rest.on('error', () => {})
    this.#rest = rest
    this.#resolve(rest)
  }
}

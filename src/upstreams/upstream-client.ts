import { type ResponseHeaders, PositionReader, type ResponsePosition } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { onTimeout } from '../with-timeout.js'
import { UpstreamLimiter, NoSlotError } from './upstream-limiter.js'
import { ConnectionPool, type UpstreamConnectionOptions } from './connection-pool.js'
import { UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest, type CancelSignal } from './upstream-request.js'
import { type ReceivedResponse } from './response-receiver.js'

/** Settings of one upstream. */
export interface UpstreamClientOptions extends UpstreamConnectionOptions {
  readonly name: string
  /** Stores history although a gateway in front of the node sends `no-store`. */
  readonly ignoreCacheControl?: boolean
  /** Bodies beyond this are streamed instead of buffered. */
  readonly maxBufferedBytes: number
  readonly requestsPerSecond?: number | null
  /** False for a timestamp that no chain can have reached; its position is not believed. */
  readonly acceptsTimestamp?: (timestampUsec: bigint) => boolean
}

/** Counts finished upstream requests for metrics; `status` is a status code or a failure reason. */
export interface UpstreamMetrics {
  fetched(upstream: string, endpoint: string, status: string, seconds: number): void
  brokeOffStream?(upstream: string): void
}

/** HTTP client of one upstream: connections, limiter, and the last release that it reported. */
export class UpstreamClient {
  readonly name: string
  /** Base URL; it may hold a secret. */
  readonly url: string
  readonly timeoutMs: number
  readonly limiter: UpstreamLimiter
  /** Release from the last response to `GET /v1`. */
  release: string | undefined
  readonly #options: UpstreamClientOptions
  readonly #metrics: UpstreamMetrics
  readonly #connectionPool: ConnectionPool
  readonly #positions = new PositionReader()
  #lastFetchSucceeded = false
  #respondedAtMs = -Infinity

  constructor (options: UpstreamClientOptions, metrics: UpstreamMetrics) {
    const { name, url, timeoutMs, maxConcurrent, requestsPerSecond = null, now } = options
    this.name = name
    this.url = url
    this.timeoutMs = timeoutMs
    this.#options = options
    this.#metrics = metrics
    this.#connectionPool = new ConnectionPool(options)
    this.limiter = new UpstreamLimiter({
      maxConcurrent,
      requestsPerSecond,
      now,
      onBrokenOff: () => metrics.brokeOffStream?.(name)
    })
  }

  /** True when the last request got a response with position headers or a status below 500. */
  get lastFetchSucceeded (): boolean {
    return this.#lastFetchSucceeded
  }

  /** Fetches once, and buffers the body up to the limit unless it is to be streamed; rejects with UpstreamFailure. */
  async fetch (
    request: UpstreamRequest,
    timeoutMs = this.timeoutMs,
    signal?: CancelSignal
  ): Promise<UpstreamResponse> {
    const { now, maxBufferedBytes, onConnectionLost } = this.#options
    const { client, isProbe = false } = request
    const startedMs = now()
    const record = (status: string): void => {
      this.#metrics.fetched(this.name, request.endpoint, status, (now() - startedMs) / 1000)
    }
    let leftMs = timeoutMs
    let clearTimer: (() => void) | undefined
    try {
      if (isAborted(signal)) throw signal?.reason
      let slot = this.limiter.tryAcquire(isProbe, client?.id)
      if (slot === undefined) {
        slot = await this.limiter.acquire({ clientId: client?.id, isProbe, timeoutMs, signal })
        leftMs -= now() - startedMs
      }
      // Reads the release before sending: an upgrade in between makes an entry look older, never newer.
      const { release } = this
      const onCancel = (): void => {
        if (signal !== undefined) receiver.cancel(signal.reason)
      }
      // A streamed body may take as long as its reader; it keeps the slot until its end.
      const receiver = this.#connectionPool.send(
        request,
        request.isStreamed === true ? 0 : maxBufferedBytes,
        slot,
        () => signal?.removeEventListener('abort', onCancel)
      )
      clearTimer = onTimeout(leftMs, () => {
        receiver.cancel(new DOMException('timed out', 'TimeoutError'))
        // Treats silence as a lost connection: the node may have restarted on another chain.
        onConnectionLost?.()
      })
      signal?.addEventListener('abort', onCancel, { once: true })
      // The signal may have come while the request waited for its slot.
      if (isAborted(signal)) onCancel()
      const response = this.responseOf(await receiver.received, release)
      record(String(response.status))
      return response
    } catch (error) {
      const failure = this.#failureOf(error, leftMs, timeoutMs)
      // Ignores a time-out that began before another response came, a cancelled request, and a request never sent: none
      // proves a fault.
      const isOld = failure.reason === 'timeout' && startedMs < this.#respondedAtMs
      if (!isAborted(signal) && !isOld) this.recordFailure(failure)
      record(failure.reason)
      throw failure
    } finally {
      clearTimer?.()
    }
  }

  /** Reads the position of what this process or another one received; rejects a body of an unknown coding. */
  responseOf (
    { status, headers, body, rest, isOverBudget }: ReceivedResponse,
    release: string | undefined
  ): UpstreamResponse {
    // Rejects transfer codings other than chunked: their bytes are not the body (RFC 9112, section 7).
    if (isTransferCoded(headers)) {
      rest?.destroy()
      throw new UpstreamFailure(this.name, 'invalid_response', undefined)
    }
    const stamped = this.#positionIn(headers)
    this.#lastFetchSucceeded = stamped !== undefined || status < 500
    this.#respondedAtMs = this.#options.now()
    return {
      status,
      headers,
      body,
      rest,
      isOverBudget,
      isFramed: isFramed(headers),
      stamped,
      release,
      ignoresCacheControl: this.#options.ignoreCacheControl
    }
  }

  /** Records that this process or another one got no response. */
  recordFailure (failure: UpstreamFailure): void {
    if (!isInconclusive(failure)) this.#lastFetchSucceeded = false
  }

  /** Resolves when requests in flight have ended and the connections are closed. */
  async drain (): Promise<void> {
    await this.limiter.waitUntilIdle()
    await this.#connectionPool.drain()
  }

  #positionIn (headers: ResponseHeaders): ResponsePosition | undefined {
    const stamped = this.#positions.read(headers)
    if (stamped === undefined) return undefined
    return this.#options.acceptsTimestamp?.(stamped.position.head.timestampUsec) === false ? undefined : stamped
  }

  // Counts a time-out as no_slot when queueing took over half of the time: the upstream had too little left to respond.
  #failureOf (error: unknown, leftMs: number, timeoutMs: number): UpstreamFailure {
    const failure = UpstreamFailure.of(this.name, error)
    return failure.reason === 'timeout' && leftMs < timeoutMs / 2
      ? UpstreamFailure.of(this.name, new NoSlotError('upstream slot came too late'))
      : failure
  }

  /** Closes every connection; pending requests fail. */
  async close (): Promise<void> {
    this.limiter.close()
    await this.#connectionPool.close()
  }
}

function isAborted (signal: CancelSignal | undefined): boolean {
  return signal?.aborted === true
}

// Chunked is decoded by the HTTP client; we send no TE header, so no other coding is acceptable.
function isTransferCoded ({ 'transfer-encoding': coding }: ResponseHeaders): boolean {
  return coding !== undefined && String(coding).trim().toLowerCase() !== 'chunked'
}

function isFramed (headers: ResponseHeaders): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

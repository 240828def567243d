import { type ResponseHeaders, type Position, readPosition, type ResponsePosition } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { onTimeout } from '../with-timeout.js'
import { UpstreamLimiter, NoSlotError, type RequestSlot } from './upstream-limiter.js'
import { ConnectionPool, type UpstreamConnectionOptions } from './connection-pool.js'
import { UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest, type CancelSignal } from './upstream-request.js'
import { type ResponseReceiver } from './response-receiver.js'

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
  /** Sends probes through another process, which counts them; absent: this process probes. */
  readonly probeTransport?: Transport
}

/** Sends one request and receives its response. */
export interface Transport {
  send(
    request: UpstreamRequest,
    maxBytes: number,
    slot: RequestSlot | undefined,
    onDone: () => void
  ): Pick<ResponseReceiver, 'received' | 'cancel'>
}

/** Counts finished upstream requests for metrics; `status` is a status code or a failure reason. */
export interface UpstreamMetrics {
  fetched(upstream: string, endpoint: string, status: string, seconds: number): void
  brokeOffStream?(upstream: string): void
}

/** HTTP client of one upstream: connections, limiter, and the last release and position it reported. */
export class UpstreamClient {
  readonly name: string
  readonly limiter: UpstreamLimiter
  readonly #options: UpstreamClientOptions
  readonly #metrics: UpstreamMetrics
  readonly #connectionPool: ConnectionPool
  #release: string | undefined
  #position: Position | undefined
  #lastFetchSucceeded = false
  #respondedAtMs = -Infinity

  constructor (options: UpstreamClientOptions, metrics: UpstreamMetrics) {
    this.name = options.name
    this.#options = options
    this.#metrics = metrics
    this.#connectionPool = new ConnectionPool(options)
    this.limiter = new UpstreamLimiter({
      ...options,
      requestsPerSecond: options.requestsPerSecond ?? null,
      onBrokenOff: () => {
        metrics.brokeOffStream?.(options.name)
      }
    })
  }

  /** True when the last request got a response with position headers or a status below 500. */
  get lastFetchSucceeded (): boolean {
    return this.#lastFetchSucceeded
  }

  /** Position stamped on the last response that had one. */
  get position (): Position | undefined {
    return this.#position
  }

  /** Release from the last response to `GET /v1`. */
  get release (): string | undefined {
    return this.#release
  }

  setRelease (release: string): void {
    this.#release = release
  }

  /** Base URL; it may hold a secret. */
  get url (): string {
    return this.#options.url
  }

  get timeoutMs (): number {
    return this.#options.timeoutMs
  }

  /** Fetches once and buffers the body up to the limit. Throws UpstreamFailure where no response came. */
  fetch (
    request: UpstreamRequest,
    timeoutMs = this.#options.timeoutMs,
    signal?: CancelSignal
  ): Promise<UpstreamResponse> {
    return this.#fetch(request, this.#options.maxBufferedBytes, timeoutMs, signal)
  }

  /** Fetches through the probe transport where one is configured. */
  probe (request: UpstreamRequest, timeoutMs: number): Promise<UpstreamResponse> {
    return this.#fetch(request, this.#options.maxBufferedBytes, timeoutMs, undefined, this.#options.probeTransport)
  }

  /** Resolves when requests in flight have ended and the connections are closed. */
  async drain (): Promise<void> {
    await this.limiter.waitUntilIdle()
    await this.#connectionPool.drain()
  }

  /** Fetches once with the whole body streamed. */
  forward (
    request: UpstreamRequest,
    signal: CancelSignal,
    timeoutMs = this.#options.timeoutMs
  ): Promise<UpstreamResponse> {
    return this.#fetch(request, 0, timeoutMs, signal)
  }

  async #fetch (
    request: UpstreamRequest,
    maxBytes: number,
    timeoutMs: number,
    signal: CancelSignal | undefined,
    transport: Transport = this.#connectionPool
  ): Promise<UpstreamResponse> {
    const { now } = this.#options
    const { clientId, isProbe = false } = request
    const startedMs = now()
    const record = (status: string): void => {
      if (transport === this.#connectionPool) {
        this.#metrics.fetched(this.name, request.endpoint, status, (now() - startedMs) / 1000)
      }
    }
    let leftMs = timeoutMs
    try {
      if (signal?.aborted === true) throw signal.reason
      let slot = transport === this.#connectionPool ? this.limiter.tryAcquire(isProbe, clientId) : undefined
      if (slot === undefined && transport === this.#connectionPool) {
        slot = await this.limiter.acquire({ clientId, isProbe, timeoutMs, signal })
        leftMs -= now() - startedMs
      }
      const response = await this.#send(request, maxBytes, leftMs, signal, transport, slot)
      this.#lastFetchSucceeded = response.stamped !== undefined || response.status < 500
      this.#respondedAtMs = now()
      this.#position = response.stamped?.position ?? this.#position
      record(String(response.status))
      return response
    } catch (error) {
      const failure = this.#failureOf(error, leftMs, timeoutMs)
      // Ignores a time-out that began before another response came, a cancelled request, and a request never sent: none
      // proves a fault.
      const isOld = failure.reason === 'timeout' && startedMs < this.#respondedAtMs
      if (signal?.aborted !== true && !isOld && !isInconclusive(failure)) this.#lastFetchSucceeded = false
      record(failure.reason)
      throw failure
    }
  }

  #positionIn (headers: ResponseHeaders): ResponsePosition | undefined {
    const stamped = readPosition(headers)
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

  async #send (
    request: UpstreamRequest,
    maxBytes: number,
    timeoutMs: number,
    signal: CancelSignal | undefined,
    transport: Transport,
    slot: RequestSlot | undefined
  ): Promise<UpstreamResponse> {
    // Reads the release before sending: an upgrade in between makes an entry look older, never newer.
    const release = this.#release
    const onCancel = (): void => {
      if (signal !== undefined) receiver.cancel(signal.reason)
    }
    // A streamed body may take as long as its reader; it keeps the slot until its end.
    const receiver = transport.send(request, maxBytes, slot, () => {
      signal?.removeEventListener('abort', onCancel)
    })
    const clearTimer = onTimeout(timeoutMs, () => {
      receiver.cancel(new DOMException('timed out', 'TimeoutError'))
      // Treats silence as a lost connection: the node may have restarted on another chain.
      this.#options.onConnectionLost?.()
    })
    signal?.addEventListener('abort', onCancel, { once: true })
    if (signal?.aborted === true) onCancel()
    try {
      const { status, headers, body, rest, isOverBudget } = await receiver.received
      // Rejects transfer codings other than chunked: their bytes are not the body (RFC 9112, section 7).
      if (isTransferCoded(headers)) {
        rest?.destroy()
        throw new UpstreamFailure(this.name, 'invalid_response', undefined)
      }
      return {
        status,
        headers,
        body,
        rest,
        isOverBudget,
        isFramed: isFramed(headers),
        stamped: this.#positionIn(headers),
        release,
        ignoresCacheControl: this.#options.ignoreCacheControl
      }
    } finally {
      clearTimer()
    }
  }
}

// Chunked is decoded by the HTTP client; we send no TE header, so no other coding is acceptable.
function isTransferCoded ({ 'transfer-encoding': coding }: ResponseHeaders): boolean {
  return coding !== undefined && String(coding).trim().toLowerCase() !== 'chunked'
}

function isFramed (headers: ResponseHeaders): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

import { FairQueue } from './fair-queue.js'
import { RateLimiter, toRateLimit } from './rate-limiter.js'
import { type CancelSignal } from './upstream-request.js'

/** Limits of one upstream. */
export interface UpstreamLimiterOptions {
  readonly maxConcurrent: number
  /** Null: no limit. */
  readonly requestsPerSecond: number | null
  readonly now: () => number
  /** Runs after a stream was broken off for others. */
  readonly onBrokenOff?: () => void
}

/** Limit of an upstream that requests can exhaust, by its configuration key. */
export type ExhaustedLimit = 'maxConcurrent' | 'requestsPerSecond'

/** Request for a slot, with a queue timeout. */
export interface SlotRequest {
  readonly clientId: string | undefined
  /** Probes go before client requests and are never shed. */
  readonly isProbe: boolean
  readonly timeoutMs: number
  readonly signal: CancelSignal | undefined
}

/** No slot was free: the queue is full, or the queue timeout passed. */
export class NoSlotError extends Error {}

interface Waiter extends SlotOwner {
  start(slot: RequestSlot): void
  reject(): void
}

interface SlotOwner {
  readonly clientId: string
  readonly isProbe: boolean
}

// Requests in flight and queued per allowed connection.
const queuedPerConnection = 8
// Reports the slots as exhausted for this long, since requests come and go between two looks at them.
const reportForMs = 10_000

/** Slots and queue of one upstream: limits concurrency, rate, and the queue to what can be served in time. */
export class UpstreamLimiter {
  readonly maxConcurrent: number
  readonly #rateLimiter: RateLimiter | undefined
  readonly #probeQueue = new Set<Waiter>()
  readonly #clientQueue = new FairQueue<Waiter>()
  readonly #onIdle: Array<() => void> = []
  // Leaves a slot for other clients, so one stream cannot hold the only slot that clients have.
  readonly #streamLimiter: ClientStreamLimiter
  readonly #now: () => number
  #lastExhausted: { readonly limit: ExhaustedLimit, readonly atMs: number } | undefined
  #inFlight = 0
  #clientsInFlight = 0
  #wasProbeServed = false
  #timer: NodeJS.Timeout | undefined

  constructor ({ maxConcurrent, requestsPerSecond, now, onBrokenOff = () => {} }: UpstreamLimiterOptions) {
    this.maxConcurrent = maxConcurrent
    this.#now = now
    this.#streamLimiter = new ClientStreamLimiter({
      share: Math.min(Math.floor(maxConcurrent / 2), clientSlotsOf(maxConcurrent) - 1),
      now,
      hasOther: clientId => this.#clientQueue.hasOther(clientId),
      onBrokenOff: () => {
        this.#recordExhausted('maxConcurrent')
        onBrokenOff()
      }
    })
    this.#rateLimiter = requestsPerSecond === null ? undefined : new RateLimiter(toRateLimit(requestsPerSecond), now)
  }

  get inFlight (): number {
    return this.#inFlight
  }

  get queued (): number {
    return this.#probeQueue.size + this.#clientQueue.size
  }

  /** Slots held by streams, which end when their clients have read them. */
  get streams (): number {
    return this.#streamLimiter.size
  }

  /** Limit for which a request was rejected or a stream broken off in the last ten seconds, or waits for streams. */
  get exhaustedLimit (): ExhaustedLimit | undefined {
    if (this.#clientQueue.size > 0 && !this.#hasClientSlot && this.#streamLimiter.size > 0) return 'maxConcurrent'
    const last = this.#lastExhausted
    return last !== undefined && this.#now() - last.atMs < reportForMs ? last.limit : undefined
  }

  /**
   * True when optional requests should stay away: a client queues, or half of a limit is used. `exceptCount` leaves out
   * the caller's own.
   */
  isBusy (exceptCount = 0): boolean {
    return this.#clientQueue.size > 0 || (this.#inFlight - exceptCount) * 2 >= this.maxConcurrent ||
      this.#rateLimiter?.isHalfUsed(exceptCount) === true
  }

  /** True when one more request would leave over half of each limit free. */
  get hasSpareCapacity (): boolean {
    return !this.isBusy(-1)
  }

  /** True when a request would queue. */
  get isFull (): boolean {
    return this.queued > 0 || !this.#hasClientSlot || this.#isRateLimited
  }

  /** Takes a free slot synchronously; undefined where the request must queue. */
  tryAcquire (isProbe: boolean, clientId = ''): RequestSlot | undefined {
    const isFirst = isProbe
      ? this.#probeQueue.size === 0 && this.#hasFreeSlot
      : this.queued === 0 && this.#hasClientSlot
    return isFirst && !this.#isRateLimited ? this.#startSlot({ clientId, isProbe }) : undefined
  }

  /** Waits in the queue; rejects with NoSlotError, or with the signal's reason. */
  async acquire ({ clientId = '', isProbe, timeoutMs, signal }: SlotRequest): Promise<RequestSlot> {
    if (!isProbe) this.#shedExcess(clientId, timeoutMs)
    return await new Promise((resolve, reject) => {
      const leaveQueue = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onCancel)
        this.#probeQueue.delete(waiter)
        this.#clientQueue.remove(clientId, waiter)
      }
      const waiter: Waiter = {
        clientId,
        isProbe,
        start: slot => {
          leaveQueue()
          resolve(slot)
        },
        reject: () => {
          leaveQueue()
          if (!isProbe) this.#recordExhausted(this.#scarceLimit)
          reject(new NoSlotError(`no upstream slot within ${this.#scarceLimit}`))
          this.#notifyIfIdle()
        }
      }
      const onCancel = (): void => {
        leaveQueue()
        reject(signal?.reason)
        this.#notifyIfIdle()
      }
      const timer = setTimeout(waiter.reject, timeoutMs)
      signal?.addEventListener('abort', onCancel, { once: true })
      if (isProbe) this.#probeQueue.add(waiter)
      else this.#clientQueue.add(clientId, waiter)
      this.#serveQueue()
    })
  }

  /** Resolves when nothing is in flight or queued. */
  async waitUntilIdle (): Promise<void> {
    await new Promise<void>(resolve => {
      this.#onIdle.push(resolve)
      this.#notifyIfIdle()
    })
  }

  /** Rejects all queued requests. */
  close (): void {
    clearTimeout(this.#timer)
    this.#streamLimiter.close()
    for (const waiter of this.#probeQueue) waiter.reject()
    for (let next = this.#clientQueue.shift(); next !== undefined; next = this.#clientQueue.shift()) next.reject()
  }

  #notifyIfIdle (): void {
    if (this.#inFlight === 0 && this.queued === 0) { for (const resolve of this.#onIdle.splice(0)) resolve() }
  }

  get #hasFreeSlot (): boolean {
    return this.#inFlight < this.maxConcurrent
  }

  /** Clients leave one slot to varve's own polls, or an upstream whose slots are all taken would look frozen. */
  get #hasClientSlot (): boolean {
    return this.#hasFreeSlot && this.#clientsInFlight < clientSlotsOf(this.maxConcurrent)
  }

  /** Limit for which requests queue: with a free slot only the rate can hold them, even if it has just recovered. */
  get #scarceLimit (): ExhaustedLimit {
    return this.#rateLimiter !== undefined && this.#hasClientSlot ? 'requestsPerSecond' : 'maxConcurrent'
  }

  get #isRateLimited (): boolean {
    return this.#rateLimiter !== undefined && this.#rateLimiter.readyInMs > 0
  }

  // Drops from the longest queue first, so a flood costs only its own client. Rejects what cannot be served in time
  // (law 10: nothing grows without bound).
  #shedExcess (clientId: string, timeoutMs: number): void {
    const capacity = Math.min(
      this.maxConcurrent * queuedPerConnection - this.#clientsInFlight,
      this.#rateLimiter?.capacityWithin(timeoutMs) ?? Infinity
    )
    if (this.#clientQueue.size < capacity) return
    const displaced = this.#clientQueue.tailOfLongest(clientId)
    this.#recordExhausted(this.#scarceLimit)
    if (displaced === undefined) throw new NoSlotError('upstream queue full')
    displaced.reject()
  }

  #recordExhausted (limit: ExhaustedLimit): void {
    this.#lastExhausted = { limit, atMs: this.#now() }
  }

  #startSlot ({ clientId, isProbe }: SlotOwner): RequestSlot {
    let endStream = (): void => {}
    this.#inFlight++
    if (!isProbe) this.#clientsInFlight++
    this.#rateLimiter?.reserve()
    return new RequestSlot(this.#rateLimiter, {
      onReleased: () => {
        this.#inFlight--
        if (!isProbe) this.#clientsInFlight--
        endStream()
        this.#serveQueue()
        this.#notifyIfIdle()
      },
      onSent: () => {
        this.#serveQueue()
      },
      onStreaming: breakOff => {
        endStream = this.#streamLimiter.add(clientId, breakOff)
      }
    })
  }

  #serveQueue (): void {
    while (this.queued > 0) {
      const readyInMs = this.#rateLimiter?.readyInMs ?? 0
      if (readyInMs > 0) return this.#serveQueueAfter(readyInMs)
      const waiter = this.#nextWaiter()
      if (waiter === undefined) break
      waiter.start(this.#startSlot(waiter))
    }
    this.#streamLimiter.enforce()
  }

  // Alternates probes with clients while both queue: under a low rate limit probes would otherwise take every slot.
  #nextWaiter (): Waiter | undefined {
    const [probe] = this.#hasFreeSlot ? this.#probeQueue : []
    const hasClient = this.#clientQueue.size > 0 && this.#hasClientSlot
    if (probe === undefined && !hasClient) return undefined
    this.#wasProbeServed = probe !== undefined && !(this.#wasProbeServed && hasClient)
    return this.#wasProbeServed
      ? probe
      : this.#clientQueue.shift(clientId => this.#streamLimiter.isReachedBy(clientId))
  }

  // Keeps one timer for the queue; with an infinite wait, the next sent request serves the queue.
  #serveQueueAfter (ms: number): void {
    if (this.#timer !== undefined || ms === Infinity) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#serveQueue()
    }, Math.ceil(ms))
  }
}

/** Returns the slots of clients: all but one for polls, or the only one, for which clients and polls take turns. */
function clientSlotsOf (maxConcurrent: number): number {
  return Math.max(1, maxConcurrent - 1)
}

/** Events of a slot. */
interface SlotEvents {
  onReleased(): void
  onSent(): void
  onStreaming(breakOff: (reason: Error) => void): void
}

/** Slot of one request in flight. */
export class RequestSlot {
  readonly #rateLimiter: RateLimiter | undefined
  readonly #events: SlotEvents
  #isSent = false

  constructor (rateLimiter: RateLimiter | undefined, events: SlotEvents) {
    this.#rateLimiter = rateLimiter
    this.#events = events
  }

  /** Records that the response is streamed, so its client decides how long the slot is held. */
  markStreaming (breakOff: (reason: Error) => void): void {
    this.#events.onStreaming(breakOff)
  }

  /** Records that the request was sent, perhaps again on another connection. */
  markSent (): void {
    if (this.#rateLimiter === undefined) return
    if (this.#isSent) this.#rateLimiter.recordResent()
    else this.#rateLimiter.recordSent()
    this.#isSent = true
    this.#events.onSent()
  }

  /** Frees the slot; an unsent request gives its reservation back. */
  release (): void {
    if (!this.#isSent) this.#rateLimiter?.releaseReservation()
    this.#events.onReleased()
  }
}

/** A response that holds its slot for as long as its client reads. */
interface Stream {
  readonly clientId: string
  readonly startedAtMs: number
  breakOff(reason: Error): void
}

/** Options of a client stream limiter. */
export interface ClientStreamLimiterOptions {
  /** Streams that one client may hold while others wait. */
  readonly share: number
  readonly now: () => number
  /** True when a client other than this one waits for a slot. */
  readonly hasOther: (clientId: string) => boolean
  /** Runs after a stream was broken off for others. */
  readonly onBrokenOff: () => void
}

// Time that every stream gets, in which most end by themselves.
const minStreamMs = 1000

/** Streams of one upstream: breaks off those of a client beyond its share while other clients wait. */
export class ClientStreamLimiter {
  readonly #options: ClientStreamLimiterOptions
  // Oldest first.
  readonly #streams = new Set<Stream>()
  #timer: NodeJS.Timeout | undefined

  constructor (options: ClientStreamLimiterOptions) {
    this.#options = options
  }

  get size (): number {
    return this.#streams.size
  }

  /** Adds a stream; returns a function for its end. */
  add (clientId: string, breakOff: Stream['breakOff']): () => void {
    const stream: Stream = { clientId, startedAtMs: this.#options.now(), breakOff }
    this.#streams.add(stream)
    this.enforce()
    return () => {
      this.#streams.delete(stream)
    }
  }

  /** True when a client has its share, so others are served before it. */
  isReachedBy (clientId: string): boolean {
    return this.#streams.size >= this.#options.share && this.#streamsOf(clientId).length >= this.#options.share
  }

  /** Breaks off the oldest streams of a client beyond its share; the caller calls this when a request must wait. */
  enforce (): void {
    const { share, now, hasOther, onBrokenOff } = this.#options
    if (this.#streams.size <= share) return
    for (const clientId of new Set([...this.#streams].map(stream => stream.clientId))) {
      const own = this.#streamsOf(clientId)
      if (own.length <= share || !hasOther(clientId)) continue
      for (const { startedAtMs, breakOff } of own.slice(0, own.length - share)) {
        const leftMs = startedAtMs + minStreamMs - now()
        if (leftMs > 0) return this.#enforceAfter(leftMs)
        onBrokenOff()
        breakOff(new Error('stream broken off: other clients wait for the upstream'))
      }
    }
  }

  close (): void {
    clearTimeout(this.#timer)
  }

  #streamsOf (clientId: string): Stream[] {
    return [...this.#streams].filter(stream => stream.clientId === clientId)
  }

  #enforceAfter (ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.enforce()
    }, Math.ceil(ms))
  }
}

import { FairQueue } from './fair-queue.js'
import { RateLimiter, toRateLimit } from './rate-limiter.js'
import { type CancelSignal } from './upstream-request.js'
import { ClientStreamLimiter } from './client-stream-limiter.js'
import { RequestSlot } from './request-slot.js'

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

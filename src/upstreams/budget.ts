import { FairQueue } from './fair-queue.js'
import { RateLimiter, rateLimitOf } from './rate-limiter.js'
import { type CancelSignal } from './cancel-signal.js'

/** Limits of one upstream. */
export interface BudgetOptions {
  readonly maxConcurrent: number
  /** Null: no limit. */
  readonly requestsPerSecond: number | null
  readonly now: () => number
}

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

interface Waiter {
  start(slot: UpstreamSlot): void
  reject(): void
}

// Requests in flight and queued per allowed connection.
const queuedPerConnection = 8

/** Slots and queue of one upstream: limits concurrency, rate, and the queue to what can be served in time. */
export class Budget {
  readonly maxConcurrent: number
  readonly #rateLimiter: RateLimiter | undefined
  readonly #probeQueue = new Set<Waiter>()
  readonly #clientQueue = new FairQueue<Waiter>()
  readonly #onIdle: Array<() => void> = []
  #inFlight = 0
  #wasProbeServed = false
  #timer: NodeJS.Timeout | undefined

  constructor ({ maxConcurrent, requestsPerSecond, now }: BudgetOptions) {
    this.maxConcurrent = maxConcurrent
    this.#rateLimiter = requestsPerSecond === null ? undefined : new RateLimiter(rateLimitOf(requestsPerSecond), now)
  }

  get inFlight (): number {
    return this.#inFlight
  }

  get queued (): number {
    return this.#probeQueue.size + this.#clientQueue.size
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
    return this.queued > 0 || !this.#hasFreeSlot
  }

  /** Takes a free slot synchronously; undefined where the request must queue. */
  tryAcquire (isProbe: boolean): UpstreamSlot | undefined {
    const isFirst = isProbe ? this.#probeQueue.size === 0 : this.queued === 0
    return isFirst && this.#hasFreeSlot ? this.#startSlot() : undefined
  }

  /** Waits in the queue; rejects with NoSlotError, or with the signal's reason. */
  async acquire ({ clientId = '', isProbe, timeoutMs, signal }: SlotRequest): Promise<UpstreamSlot> {
    if (!isProbe) this.#shedExcess(clientId, timeoutMs)
    return await new Promise((resolve, reject) => {
      const leaveQueue = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onCancel)
        this.#probeQueue.delete(waiter)
        this.#clientQueue.remove(clientId, waiter)
      }
      const waiter: Waiter = {
        start: slot => {
          leaveQueue()
          resolve(slot)
        },
        reject: () => {
          leaveQueue()
          reject(new NoSlotError('no upstream slot'))
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
    for (const waiter of this.#probeQueue) waiter.reject()
    for (let next = this.#clientQueue.shift(); next !== undefined; next = this.#clientQueue.shift()) next.reject()
  }

  #notifyIfIdle (): void {
    if (this.#inFlight === 0 && this.queued === 0) { for (const resolve of this.#onIdle.splice(0)) resolve() }
  }

  get #hasFreeSlot (): boolean {
    return this.#inFlight < this.maxConcurrent && (this.#rateLimiter === undefined || this.#rateLimiter.readyInMs <= 0)
  }

  // Drops from the longest queue first, so a flood costs only its own client; rejects beyond what can be served in time
  // (law 10).
  #shedExcess (clientId: string, timeoutMs: number): void {
    const capacity = Math.min(
      this.maxConcurrent * queuedPerConnection - this.#inFlight,
      this.#rateLimiter?.capacityWithin(timeoutMs) ?? Infinity
    )
    if (this.#clientQueue.size < capacity) return
    const displaced = this.#clientQueue.tailOfLongest(clientId)
    if (displaced === undefined) throw new NoSlotError('upstream queue full')
    displaced.reject()
  }

  #startSlot (): UpstreamSlot {
    this.#inFlight++
    this.#rateLimiter?.reserve()
    return new UpstreamSlot(this.#rateLimiter, () => {
      this.#inFlight--
      this.#serveQueue()
      this.#notifyIfIdle()
    }, () => {
      this.#serveQueue()
    })
  }

  #serveQueue (): void {
    while (this.queued > 0 && this.#inFlight < this.maxConcurrent) {
      const readyInMs = this.#rateLimiter?.readyInMs ?? 0
      if (readyInMs > 0) return this.#serveQueueAfter(readyInMs)
      this.#nextWaiter()?.start(this.#startSlot())
    }
  }

  // Alternates probes with clients while both queue: under a low rate limit probes would otherwise take every slot.
  #nextWaiter (): Waiter | undefined {
    const [probe] = this.#probeQueue
    this.#wasProbeServed = probe !== undefined && !(this.#wasProbeServed && this.#clientQueue.size > 0)
    return this.#wasProbeServed ? probe : this.#clientQueue.shift()
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

/** Slot of one request in flight. */
export class UpstreamSlot {
  readonly #rateLimiter: RateLimiter | undefined
  readonly #onReleased: () => void
  readonly #onSent: () => void
  #isSent = false

  constructor (rateLimiter: RateLimiter | undefined, onReleased: () => void, onSent: () => void) {
    this.#rateLimiter = rateLimiter
    this.#onReleased = onReleased
    this.#onSent = onSent
  }

  /** Records that the request was sent, perhaps again on another connection. */
  markSent (): void {
    if (this.#rateLimiter === undefined) return
    if (this.#isSent) this.#rateLimiter.recordResent()
    else this.#rateLimiter.recordSent()
    this.#isSent = true
    this.#onSent()
  }

  /** Frees the slot; an unsent request gives its reservation back. */
  release (): void {
    if (!this.#isSent) this.#rateLimiter?.releaseReservation()
    this.#onReleased()
  }
}

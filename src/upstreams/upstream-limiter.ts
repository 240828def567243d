import { clientShare, ClientShares } from '../clients/client-shares.js'
import { LocalBuckets } from '../clients/token-buckets.js'
import {
  requestRateOf,
  type SharedLimits,
  SharedRate,
  type TokenSource,
  type UnitBudget,
  unitRateOf
} from './shared-rate.js'
import { type CancelSignal } from './upstream-request.js'

/** Limits of one upstream. */
export interface UpstreamLimiterOptions {
  readonly maxConcurrent: number
  /** Null: no limit. */
  readonly requestsPerSecond?: number | null
  readonly budget?: UnitBudget | null | undefined
  readonly now: () => number
  /** Runs after a stream was broken off for others. */
  readonly onBrokenOff?: () => void
  /** Shares the limits with other processes, under the name of the upstream. */
  readonly shared?: SharedLimits | undefined
  readonly name?: string
  /** Counts tokens of a shared rate. */
  readonly tookTokens?: (source: TokenSource, count: number) => void
}

/** Limit of an upstream that requests can exhaust, by its configuration key. */
export type ExhaustedLimit = 'maxConcurrent' | 'requestsPerSecond' | 'budget'

/** Request for a slot, with a queue timeout. */
export interface SlotRequest {
  readonly clientId: string | undefined
  /** Probes go before client requests and are never shed. */
  readonly isProbe: boolean
  /** Units of the budget that the request costs. */
  readonly units?: number
  readonly timeoutMs: number
  readonly signal: CancelSignal | undefined
}

/** No slot was free: the queue is full, or the queue timeout passed. */
export class NoSlotError extends Error {}

interface Waiter extends SlotWish {
  start(slot: RequestSlot): void
  reject(): void
}

/** A response that holds its slot for as long as its client reads. */
interface Stream {
  readonly startedAtMs: number
  breakOff(reason: Error): void
}

type SlotWish = Pick<RequestSlot, 'clientId' | 'isProbe' | 'units'>

/** Slot of one request in flight. */
export class RequestSlot {
  readonly clientId: string
  readonly isProbe: boolean
  readonly units: number
  isSent = false
  stream: Stream | undefined
  readonly #limiter: UpstreamLimiter

  constructor (limiter: UpstreamLimiter, { clientId, isProbe, units }: SlotWish) {
    this.#limiter = limiter
    this.clientId = clientId
    this.isProbe = isProbe
    this.units = units
  }

  /** Records that the response is streamed. */
  markStreaming (breakOff: Stream['breakOff']): void {
    this.#limiter.onStreaming(this, breakOff)
  }

  /** Records that the request was sent. */
  markSent (): void {
    this.#limiter.onSent(this)
  }

  release (): void {
    this.#limiter.onReleased(this)
  }
}

// Requests in flight and queued per allowed connection.
const queuedPerConnection = 8
// Time that every stream gets, in which most end by themselves.
const minStreamMs = 1000
// Reports the slots as exhausted for this long, since requests come and go between two looks at them.
const reportForMs = 10_000

/** Slots and queue of one upstream: limits concurrency, rate, and the queue to what can be served in time. */
export class UpstreamLimiter {
  readonly #maxConcurrent: number
  readonly #hosts: () => number
  readonly #rateLimiter: RateLimiter | undefined
  /** Units of the budget of all processes. */
  readonly budget: SharedRate | undefined
  readonly #probeQueue = new Set<Waiter>()
  readonly #clientQueue = new ClientShares<Waiter>()
  readonly #onIdle: Array<() => void> = []
  readonly #streams = new ClientShares<Stream>()
  readonly #onBrokenOff: () => void
  readonly #now: () => number
  #lastExhausted: { readonly limit: ExhaustedLimit, readonly atMs: number } | undefined
  #inFlight = 0
  #clientsInFlight = 0
  #queuedUnits = 0
  #wasProbeServed = false
  #timer: NodeJS.Timeout | undefined
  #streamTimer: NodeJS.Timeout | undefined

  constructor (options: UpstreamLimiterOptions) {
    const { maxConcurrent, requestsPerSecond = null, budget = null, now, onBrokenOff = () => {} } = options
    const { shared, name = '', tookTokens = () => {} } = options
    const processes = shared?.processes ?? (() => 1)
    const onChange = (): void => {
      this.#serveQueue()
    }
    this.#maxConcurrent = maxConcurrent
    this.#hosts = shared?.hosts ?? (() => 1)
    this.#now = now
    this.#onBrokenOff = onBrokenOff
    if (budget !== null) {
      this.budget = new SharedRate({
        bucket: `units of upstream ${name}`,
        rate: unitRateOf(budget),
        buckets: shared?.buckets ?? new LocalBuckets(now),
        processes,
        now,
        taken: () => {},
        onChange
      })
    }
    if (requestsPerSecond === null) return
    const tokens = shared?.buckets && new SharedRate({
      bucket: `upstream ${name}`,
      rate: requestRateOf(requestsPerSecond * 1000 / ratePeriodMs),
      buckets: shared.buckets,
      processes,
      now,
      taken: tookTokens,
      onChange
    })
    this.#rateLimiter = new RateLimiter(requestsPerSecond, now, tokens)
  }

  /** Slots of this process: its share of the slots of all hosts, and at least one. */
  get maxConcurrent (): number {
    return Math.max(1, Math.floor(this.#maxConcurrent / this.#hosts()))
  }

  get inFlight (): number {
    return this.#inFlight
  }

  get queued (): number {
    return this.#probeQueue.size + this.#clientQueue.size
  }

  /** Slots held by streams, which end when their clients have read them. */
  get streams (): number {
    return this.#streams.size
  }

  /** Limit that rejected a request or ended a stream in the last ten seconds, or that streams use up now. */
  get exhaustedLimit (): ExhaustedLimit | undefined {
    if (this.#clientQueue.size > 0 && !this.#hasClientSlot && this.#streams.size > 0) return 'maxConcurrent'
    const last = this.#lastExhausted
    return last !== undefined && this.#now() - last.atMs < reportForMs ? last.limit : undefined
  }

  /**
   * True when optional requests should stay away: a client queues, or half of a limit is used. `exceptCount` leaves out
   * the caller's own.
   */
  isBusy (exceptCount = 0): boolean {
    return this.isReservedForClients || (this.#inFlight - exceptCount) * 2 >= this.maxConcurrent ||
      this.#rateLimiter?.isHalfUsed(exceptCount) === true
  }

  /** True while clients queue, or half of the units that can be saved are used: background reads then wait. */
  get isReservedForClients (): boolean {
    return this.#clientQueue.size > 0 || this.budget?.isHalfUsed === true
  }

  /** True when one more request would leave over half of each limit free. */
  get hasSpareCapacity (): boolean {
    return !this.isBusy(-1)
  }

  get hasFreeSlot (): boolean {
    return this.#inFlight < this.maxConcurrent
  }

  /** True when a request would queue. */
  get isFull (): boolean {
    return this.queued > 0 || !this.#hasClientSlot || this.#isRateLimited
  }

  /** Takes a free slot synchronously; undefined if the request must queue. */
  tryAcquire (isProbe: boolean, clientId = '', units = 1): RequestSlot | undefined {
    const isFirst = isProbe
      ? this.#probeQueue.size === 0 && this.hasFreeSlot && !this.#clientsGoFirst
      : this.queued === 0 && this.#hasClientSlot
    return isFirst && !this.#isRateLimited && this.#hasToken
      ? this.#startSlot({ clientId, isProbe, units })
      : undefined
  }

  /** Waits in the queue; rejects with NoSlotError, or with the signal's reason. */
  async acquire ({ clientId = '', isProbe, units = 1, timeoutMs, signal }: SlotRequest): Promise<RequestSlot> {
    if (!isProbe) this.#shedExcess(clientId, timeoutMs)
    return await new Promise((resolve, reject) => {
      const leaveQueue = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onCancel)
        this.#probeQueue.delete(waiter)
        this.#clientQueue.remove(clientId, waiter)
        this.#queuedUnits -= units
      }
      const waiter: Waiter = {
        clientId,
        isProbe,
        units,
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
      this.#queuedUnits += units
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
    clearTimeout(this.#streamTimer)
    this.#rateLimiter?.tokens?.close()
    this.budget?.close()
    for (const waiter of this.#probeQueue) waiter.reject()
    for (const clientId of this.#clientQueue.clientIds) {
      for (const waiter of this.#clientQueue.of(clientId)) waiter.reject()
    }
  }

  #notifyIfIdle (): void {
    if (this.#inFlight === 0 && this.queued === 0) { for (const resolve of this.#onIdle.splice(0)) resolve() }
  }

  /** Clients leave one slot to varve's own polls, or an upstream whose slots are all taken would look frozen. */
  get #hasClientSlot (): boolean {
    return this.hasFreeSlot && this.#clientsInFlight < clientSlotsOf(this.maxConcurrent)
  }

  /** Limit that requests queue for. With a free slot it is the rate, even if that has just recovered. */
  get #scarceLimit (): ExhaustedLimit {
    if (this.budget?.isEmpty === true && this.#hasClientSlot) return 'budget'
    return this.#rateLimiter !== undefined && this.#hasClientSlot ? 'requestsPerSecond' : 'maxConcurrent'
  }

  get #isRateLimited (): boolean {
    if (this.budget?.isEmpty === true) return true
    return this.#rateLimiter !== undefined &&
      (this.#rateLimiter.readyInMs > 0 || this.#rateLimiter.tokens?.isEmpty === true)
  }

  /** False if a shared token must be taken first. */
  get #hasToken (): boolean {
    return this.#rateLimiter?.tokens?.isAtHand !== false && this.budget?.isAtHand !== false
  }

  /** True while polls and the tail queue behind reads of clients that wait for units, and take turns with them. */
  get #clientsGoFirst (): boolean {
    return this.#clientQueue.size > 0 && this.budget?.isHalfUsed === true
  }

  // Leaves a slot for other clients, so one stream cannot hold the only slot that clients have.
  get #streamShare (): number {
    const { maxConcurrent } = this
    return Math.min(Math.floor(maxConcurrent * clientShare), clientSlotsOf(maxConcurrent) - 1)
  }

  // Drops from the longest queue first, so a flood costs only its own client. Rejects what cannot be served in time
  // (law 10: nothing grows without bound).
  #shedExcess (clientId: string, timeoutMs: number): void {
    const capacity = Math.min(
      this.maxConcurrent * queuedPerConnection - this.#clientsInFlight,
      this.#rateLimiter?.capacityWithin(timeoutMs) ?? Infinity
    )
    const unitsToCome = this.budget?.capacityWithin(timeoutMs) ?? Infinity
    if (this.#clientQueue.size < capacity && this.#queuedUnits < unitsToCome) return
    const displaced = this.#clientQueue.newestOfLargest(clientId)
    this.#recordExhausted(this.#scarceLimit)
    if (displaced === undefined) throw new NoSlotError('upstream queue full')
    displaced.reject()
  }

  #recordExhausted (limit: ExhaustedLimit): void {
    this.#lastExhausted = { limit, atMs: this.#now() }
  }

  #startSlot (wish: SlotWish): RequestSlot {
    this.#inFlight++
    if (!wish.isProbe) this.#clientsInFlight++
    this.#rateLimiter?.reserve()
    this.budget?.use(wish.units)
    return new RequestSlot(this, wish)
  }

  /** Counts a request that was sent, perhaps again on another connection; its slot calls this. */
  onSent (slot: RequestSlot): void {
    const { isSent } = slot
    slot.isSent = true
    if (isSent) this.budget?.use(slot.units)
    if (this.#rateLimiter === undefined) return
    if (isSent) this.#rateLimiter.tokens?.use()
    else this.#rateLimiter.reserved--
    this.#rateLimiter.recordSent()
    this.#serveQueue()
  }

  /** Counts a stream, whose client decides how long the slot is held; its slot calls this. */
  onStreaming (slot: RequestSlot, breakOff: Stream['breakOff']): void {
    slot.stream = { startedAtMs: this.#now(), breakOff }
    this.#streams.add(slot.clientId, slot.stream)
    this.#breakOffStreams()
  }

  /** Frees a slot, which calls this; an unsent request gives its reservation back. */
  onReleased (slot: RequestSlot): void {
    if (!slot.isSent) {
      this.#rateLimiter?.giveBack()
      this.budget?.giveBack(slot.units)
    }
    this.#inFlight--
    if (!slot.isProbe) this.#clientsInFlight--
    if (slot.stream !== undefined) this.#streams.remove(slot.clientId, slot.stream)
    this.#serveQueue()
    this.#notifyIfIdle()
  }

  /** Breaks off the oldest streams of a client beyond its share while other clients wait. */
  #breakOffStreams (): void {
    const share = this.#streamShare
    if (this.#streams.size <= share) return
    for (const clientId of this.#streams.clientIds) {
      const own = [...this.#streams.of(clientId)]
      if (!this.#clientQueue.hasOther(clientId)) continue
      for (const { startedAtMs, breakOff } of own.slice(0, Math.max(0, own.length - share))) {
        const leftMs = startedAtMs + minStreamMs - this.#now()
        if (leftMs > 0) {
          this.#streamTimer ??= setTimeout(() => {
            this.#streamTimer = undefined
            this.#breakOffStreams()
          }, Math.ceil(leftMs))
          return
        }
        this.#recordExhausted('maxConcurrent')
        this.#onBrokenOff()
        breakOff(new Error('stream broken off: other clients wait for the upstream'))
      }
    }
  }

  #serveQueue (): void {
    while (this.queued > 0) {
      const readyInMs = this.#rateLimiter?.readyInMs ?? 0
      if (readyInMs > 0) return this.#serveQueueAfter(readyInMs)
      if (this.#rateLimiter?.tokens?.isAtHand === false) return this.#rateLimiter.tokens.take(this.queued)
      if (this.hasFreeSlot && this.budget?.isAtHand === false) return this.budget.take(this.#queuedUnits)
      const waiter = this.#nextWaiter()
      if (waiter === undefined) break
      waiter.start(this.#startSlot(waiter))
    }
    this.#breakOffStreams()
  }

  // Alternates probes with clients while both queue: under a low rate limit probes would otherwise take every slot.
  #nextWaiter (): Waiter | undefined {
    const [probe] = this.hasFreeSlot ? this.#probeQueue : []
    const hasClient = this.#clientQueue.size > 0 && this.#hasClientSlot
    if (probe === undefined && !hasClient) return undefined
    this.#wasProbeServed = probe !== undefined && !(hasClient && this.#wasProbeServed)
    return this.#wasProbeServed
      ? probe
      : this.#clientQueue.shift(clientId => this.#streams.of(clientId).size >= this.#streamShare)
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

/** Returns the slots of clients: all but one for polls, or a single slot, which clients and polls use in turn. */
function clientSlotsOf (maxConcurrent: number): number {
  return Math.max(1, maxConcurrent - 1)
}

// A second, and some more: requests sent a second apart may arrive closer together, and the upstream counts arrivals.
const ratePeriodMs = 1020

/** Sliding-window log of sent requests; it never holds more than were sent within one period. */
export class RateLimiter {
  /** Requests that are reserved but not sent yet: a connection may have to open first. */
  reserved = 0
  /** Tokens that each request needs besides; undefined for a process without peers. */
  readonly tokens: SharedRate | undefined
  readonly #perPeriod: number
  readonly #now: () => number
  #sentAtMs: number[] = []
  // Index of the first request that still counts.
  #first = 0

  constructor (requestsPerSecond: number, now: () => number, tokens?: SharedRate) {
    this.#perPeriod = requestsPerSecond
    this.#now = now
    this.tokens = tokens
  }

  reserve (): void {
    this.reserved++
    this.tokens?.use()
  }

  /** Returns the reservation of a request that was not sent. */
  giveBack (): void {
    this.reserved--
    this.tokens?.giveBack()
  }

  /** Milliseconds until one more may be sent; Infinity while only unsent reservations block it. */
  get readyInMs (): number {
    const excess = this.used - this.#perPeriod
    if (excess < 0) return 0
    const freedBySentAtMs = this.#sentAtMs[this.#first + excess]
    return freedBySentAtMs === undefined ? Infinity : freedBySentAtMs + ratePeriodMs - this.#now()
  }

  /** Counts reserved requests and those sent within the period. */
  get used (): number {
    const windowStartMs = this.#now() - ratePeriodMs
    let at = this.#sentAtMs[this.#first]
    while (at !== undefined && at <= windowStartMs) at = this.#sentAtMs[++this.#first]
    if (this.#first * 2 > this.#sentAtMs.length) {
      this.#sentAtMs = this.#sentAtMs.slice(this.#first)
      this.#first = 0
    }
    return this.#sentAtMs.length - this.#first + this.reserved
  }

  /** `exceptCount` leaves out the caller's own requests. */
  isHalfUsed (exceptCount: number): boolean {
    return (this.used - exceptCount) * 2 >= this.#perPeriod || this.tokens?.isScarce === true
  }

  /** Upper bound of requests that fit into a time. */
  capacityWithin (ms: number): number {
    return Math.ceil(ms / ratePeriodMs) * this.#perPeriod
  }

  recordSent (): void {
    this.#sentAtMs.push(this.#now())
    this.tokens?.takeAhead(this.#sentAtMs.length - this.#first)
  }
}

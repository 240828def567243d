/** Bytes taken from a budget. */
export interface HeldBytes {
  release(): void
}

/** Budget for bytes outside the cache. */
export interface WriteBudget {
  /** Holds the body of a write; undefined if no room is left. */
  holdQueued(buffer: ArrayBufferLike): HeldBytes | undefined
  /** Holds the encoded copy of a write that is being sent. */
  holdSent(buffer: ArrayBufferLike): HeldBytes
}

/** Clock, budget, write gate and error callback of a write queue. */
export interface WriteQueueOptions<T> {
  readonly now: () => number
  /** Takes the bytes of a write from the budget until the write has ended; undefined if too few are left. */
  readonly hold: (item: T) => HeldBytes | undefined
  readonly canWrite: () => boolean
  /** Runs when a write succeeds, is dropped, and each time it fails, so that no read waits for a retry. */
  readonly onEnd?: (item: T, isWritten: boolean) => void
  /** Receives the reason when a write fails or is dropped, and undefined when a write succeeds. */
  readonly onWriteError: (reason: string | undefined) => void
  /** Runs for each write for which no room is left. */
  readonly onDropped?: () => void
  readonly maxConcurrentWrites?: number
}

// Bounds the backlog of an outage (law 10: nothing grows without bound). Beyond this limit or the budget for bytes, the
// oldest writes are dropped.
const maxItems = 2000
const defaultConcurrentWrites = 8
// Pause after a failed write, so a failing store is not flooded.
const retryPauseMs = 1000
// A write that fails this often is dropped; failures during an outage do not count.
const maxAttempts = 3

interface QueuedItem<T> {
  readonly item: T
  readonly held: HeldBytes
  readonly attempts: number
}

interface InFlightWrite<T> {
  readonly item: T
  readonly done: Promise<void>
  isDropped: boolean
}

/** Bounded background writes: eight in flight unless fewer are asked for, one per key, queued during an outage. */
export class WriteQueue<T> {
  readonly #write: (item: T) => Promise<void>
  readonly #options: WriteQueueOptions<T>
  readonly #items = new Map<string, QueuedItem<T>>()
  readonly #inFlight = new Map<string, InFlightWrite<T>>()
  #pausedUntilMs = -Infinity
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor (write: (item: T) => Promise<void>, options: WriteQueueOptions<T>) {
    this.#write = write
    this.#options = options
  }

  get size (): number {
    return this.#items.size
  }

  /** Queues a write; if room is missing, drops the oldest writes, or this write. */
  add (key: string, item: T): void {
    if (this.#isStopped) return this.#options.onEnd?.(item, false)
    this.#remove(key)
    const held = this.#takeBytes(item)
    if (held === undefined) {
      this.#options.onEnd?.(item, false)
      return this.#dropped()
    }
    this.#items.set(key, { item, held, attempts: 0 })
    this.resume()
  }

  /** Drops unwanted queued writes, and stops retries of unwanted writes in flight; returns true if it had any. */
  drop (isUnwanted: (item: T) => boolean): boolean {
    const before = this.#items.size
    for (const [key, { item }] of this.#items) if (isUnwanted(item)) this.#remove(key)
    // Counts each write once: the next purge does not find a write that this purge has dropped.
    const unwanted = [...this.#inFlight.values()].filter(({ item, isDropped }) => !isDropped && isUnwanted(item))
    for (const write of unwanted) write.isDropped = true
    return this.#items.size < before || unwanted.length > 0
  }

  /** Starts queued writes up to the concurrency limit. */
  resume (): void {
    const { maxConcurrentWrites: maxWrites = defaultConcurrentWrites } = this.#options
    for (const [key, waiter] of this.#items) {
      if (this.#inFlight.size >= maxWrites || !this.#canWrite()) return
      // Two concurrent writes of one key could finish in either order.
      if (this.#inFlight.has(key)) continue
      this.#items.delete(key)
      this.#inFlight.set(key, { item: waiter.item, done: this.#startWrite(key, waiter), isDropped: false })
    }
  }

  /** Resolves when the writes in flight at the call have ended. */
  async waitForInFlight (): Promise<void> {
    await Promise.all([...this.#inFlight.values()].map(async ({ done }) => await done))
  }

  /** Resolves when nothing is in flight and no queued write can start. */
  async waitUntilIdle (): Promise<void> {
    while (this.#inFlight.size > 0) await this.waitForInFlight()
  }

  stop (): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.drop(() => true)
  }

  #canWrite (): boolean {
    return this.#options.canWrite() && this.#options.now() >= this.#pausedUntilMs
  }

  #takeBytes (item: T): HeldBytes | undefined {
    for (;;) {
      const held = this.#items.size < maxItems ? this.#options.hold(item) : undefined
      const [oldest] = this.#items.keys()
      if (held !== undefined || oldest === undefined) return held
      this.#remove(oldest)
      this.#dropped()
    }
  }

  #dropped (): void {
    this.#options.onWriteError('the write queue is full')
    this.#options.onDropped?.()
  }

  async #startWrite (key: string, { item, held, attempts }: QueuedItem<T>): Promise<void> {
    try {
      await this.#write(item)
      held.release()
      this.#options.onEnd?.(item, true)
      this.#options.onWriteError(undefined)
    } catch (error) {
      this.#options.onWriteError((error as Error).message)
      this.#options.onEnd?.(item, false)
      const isOutage = !this.#options.canWrite()
      const isWanted = this.#inFlight.get(key)?.isDropped !== true
      // A newer write of the same key replaces a failed one.
      if (isWanted && !this.#items.has(key) && (isOutage || attempts + 1 < maxAttempts)) {
        this.#items.set(key, { item, held, attempts: isOutage ? attempts : attempts + 1 })
      } else held.release()
      this.#pause()
    } finally {
      this.#inFlight.delete(key)
      this.resume()
    }
  }

  #remove (key: string): void {
    const queued = this.#items.get(key)
    if (queued === undefined) return
    this.#items.delete(key)
    queued.held.release()
    this.#options.onEnd?.(queued.item, false)
  }

  #pause (): void {
    this.#pausedUntilMs = this.#options.now() + retryPauseMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.resume(), retryPauseMs + 1).unref()
  }
}

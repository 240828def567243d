/** Clock, write gate and error callback of a write queue. */
export interface WriteQueueOptions {
  readonly now: () => number
  readonly canWrite: () => boolean
  /** Receives the reason when a write fails or is dropped, and undefined when a write succeeds. */
  readonly onWriteError: (reason: string | undefined) => void
}

// Bounds the backlog of an outage (law 10); beyond either limit the oldest writes are dropped.
const maxItems = 2000
const maxBytes = 32 * 1024 * 1024
const maxConcurrentWrites = 8
// Pause after a failed write, so a failing store is not flooded.
const retryPauseMs = 1000
// A write that fails this often is dropped; failures during an outage do not count.
const maxAttempts = 3

interface QueuedItem<T> {
  readonly item: T
  readonly bytes: number
  readonly attempts: number
}

interface InFlightWrite<T> {
  readonly item: T
  readonly done: Promise<void>
  isDropped: boolean
}

/** Bounded background writes: eight in flight, one per key, queued during an outage. */
export class WriteQueue<T> {
  readonly #write: (item: T) => Promise<void>
  readonly #options: WriteQueueOptions
  readonly #items = new Map<string, QueuedItem<T>>()
  readonly #inFlight = new Map<string, InFlightWrite<T>>()
  #bytes = 0
  #pausedUntilMs = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor (write: (item: T) => Promise<void>, options: WriteQueueOptions) {
    this.#write = write
    this.#options = options
  }

  get size (): number {
    return this.#items.size
  }

  add (key: string, bytes: number, item: T): void {
    this.#put(key, { item, bytes, attempts: 0 })
    for (const oldest of this.#items.keys()) {
      if (this.#items.size <= maxItems && this.#bytes <= maxBytes) break
      this.#remove(oldest)
      this.#options.onWriteError('more waits to be written than there is room for')
    }
    this.resume()
  }

  /** Drops unwanted queued writes, and stops retries of unwanted writes in flight. */
  drop (isUnwanted: (item: T) => boolean): void {
    for (const [key, { item }] of this.#items) if (isUnwanted(item)) this.#remove(key)
    for (const write of this.#inFlight.values()) write.isDropped ||= isUnwanted(write.item)
  }

  /** Starts queued writes up to the concurrency limit. */
  resume (): void {
    for (const [key, waiter] of this.#items) {
      if (this.#inFlight.size >= maxConcurrentWrites || !this.#canWrite()) return
      // Two concurrent writes of one key could finish in either order.
      if (this.#inFlight.has(key)) continue
      this.#remove(key)
      this.#inFlight.set(key, { item: waiter.item, done: this.#startWrite(key, waiter), isDropped: false })
    }
  }

  /** Resolves when the writes in flight at the call have ended. */
  async waitForInFlight (): Promise<void> {
    await Promise.all([...this.#inFlight.values()].map(async ({ done }) => {
      await done
    }))
  }

  /** Resolves when nothing is in flight and no queued write can start. */
  async waitUntilIdle (): Promise<void> {
    while (this.#inFlight.size > 0) await this.waitForInFlight()
  }

  stop (): void {
    clearTimeout(this.#timer)
    this.#items.clear()
    this.#bytes = 0
  }

  #canWrite (): boolean {
    return this.#options.canWrite() && this.#options.now() >= this.#pausedUntilMs
  }

  async #startWrite (key: string, { item, bytes, attempts }: QueuedItem<T>): Promise<void> {
    try {
      await this.#write(item)
      this.#options.onWriteError(undefined)
    } catch (error) {
      this.#options.onWriteError((error as Error).message)
      const isOutage = !this.#options.canWrite()
      const isWanted = this.#inFlight.get(key)?.isDropped !== true
      // A newer write of the same key replaces a failed one.
      if (isWanted && !this.#items.has(key) && (isOutage || attempts + 1 < maxAttempts)) {
        this.#put(key, { item, bytes, attempts: isOutage ? attempts : attempts + 1 })
      }
      this.#pause()
    } finally {
      this.#inFlight.delete(key)
      this.resume()
    }
  }

  #remove (key: string): void {
    this.#bytes -= this.#items.get(key)?.bytes ?? 0
    this.#items.delete(key)
  }

  #put (key: string, waiter: QueuedItem<T>): void {
    this.#remove(key)
    this.#items.set(key, waiter)
    this.#bytes += waiter.bytes
  }

  #pause (): void {
    this.#pausedUntilMs = this.#options.now() + retryPauseMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.resume()
    }, retryPauseMs + 1).unref()
  }
}

/** What waits to be written, and when that makes sense. */
export interface WaitingOptions {
  readonly now: () => number
  readonly canWrite: () => boolean
  /** Told when a write was refused or given up, with the reason, and when writes go through again. */
  readonly onRefused: (reason: string | undefined) => void
}

// What an outage leaves to be written when it is over; beyond this the oldest go.
const maxItems = 2000
const maxBytes = 32 * 1024 * 1024
const maxUnderWay = 8
// Who refuses to write is asked again after so long.
const pauseMs = 1000
// What was refused so often is given up; an outage does not count.
const maxAttempts = 3

interface Waiter<T> {
  readonly item: T
  readonly bytes: number
  readonly attempts: number
}

interface UnderWay<T> {
  readonly item: T
  readonly landed: Promise<void>
  isDropped: boolean
}

/** Writes that nobody waits for: a few at a time, one for each key, bounded, kept while there is nobody to write to. */
export class Waiting<T> {
  readonly #write: (item: T) => Promise<void>
  readonly #options: WaitingOptions
  readonly #items = new Map<string, Waiter<T>>()
  readonly #underWay = new Map<string, UnderWay<T>>()
  #bytes = 0
  #pausedUntilMs = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor (write: (item: T) => Promise<void>, options: WaitingOptions) {
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
      this.#take(oldest)
      this.#options.onRefused('more waits to be written than there is room for')
    }
    this.resume()
  }

  /** Lets go of what is not wanted any more; what of it is under way is not tried again. */
  drop (isUnwanted: (item: T) => boolean): void {
    for (const [key, { item }] of this.#items) if (isUnwanted(item)) this.#take(key)
    for (const write of this.#underWay.values()) write.isDropped ||= isUnwanted(write.item)
  }

  /** Begins as many writes as may be under way. */
  resume (): void {
    for (const [key, waiter] of this.#items) {
      if (this.#underWay.size >= maxUnderWay || !this.#canWrite()) return
      // Two writes of one key would race for the last word.
      if (this.#underWay.has(key)) continue
      this.#take(key)
      this.#underWay.set(key, { item: waiter.item, landed: this.#begin(key, waiter), isDropped: false })
    }
  }

  /** Resolves when what is under way now has come to an end. */
  async landed (): Promise<void> {
    await Promise.all([...this.#underWay.values()].map(async ({ landed }) => {
      await landed
    }))
  }

  /** Resolves when nothing is under way, and nothing waits that could be written. */
  async idle (): Promise<void> {
    while (this.#underWay.size > 0) await this.landed()
  }

  stop (): void {
    clearTimeout(this.#timer)
    this.#items.clear()
    this.#bytes = 0
  }

  #canWrite (): boolean {
    return this.#options.canWrite() && this.#options.now() >= this.#pausedUntilMs
  }

  async #begin (key: string, { item, bytes, attempts }: Waiter<T>): Promise<void> {
    try {
      await this.#write(item)
      this.#options.onRefused(undefined)
    } catch (error) {
      this.#options.onRefused((error as Error).message)
      const isOutage = !this.#options.canWrite()
      const isWanted = this.#underWay.get(key)?.isDropped !== true
      // Unless something newer came meanwhile.
      if (isWanted && !this.#items.has(key) && (isOutage || attempts + 1 < maxAttempts)) {
        this.#put(key, { item, bytes, attempts: isOutage ? attempts : attempts + 1 })
      }
      this.#pause()
    } finally {
      this.#underWay.delete(key)
      this.resume()
    }
  }

  #take (key: string): void {
    this.#bytes -= this.#items.get(key)?.bytes ?? 0
    this.#items.delete(key)
  }

  #put (key: string, waiter: Waiter<T>): void {
    this.#take(key)
    this.#items.set(key, waiter)
    this.#bytes += waiter.bytes
  }

  #pause (): void {
    this.#pausedUntilMs = this.#options.now() + pauseMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.resume()
    }, pauseMs + 1).unref()
  }
}

/** Queue that serves clients round-robin, and the waiters of one client in order of arrival. */
export class FairQueue<T extends object> {
  // Keeps service order: a served client moves to the end.
  readonly #clients = new Map<string, Set<T>>()
  #size = 0

  get size (): number {
    return this.#size
  }

  add (clientId: string, waiter: T): void {
    const waiting = this.#clients.get(clientId) ?? new Set()
    this.#clients.set(clientId, waiting.add(waiter))
    this.#size++
  }

  remove (clientId: string, waiter: T): void {
    const waiting = this.#clients.get(clientId)
    if (waiting?.delete(waiter) !== true) return
    this.#size--
    if (waiting.size === 0) this.#clients.delete(clientId)
  }

  /** True when a client other than this one waits. */
  hasOther (clientId: string): boolean {
    return this.#clients.size > Number(this.#clients.has(clientId))
  }

  /** Removes and returns the next waiter; clients that have their share are served after all others. */
  shift (hasShare: (clientId: string) => boolean = () => false): T | undefined {
    let [[clientId, waiting] = ['', new Set<T>()]] = this.#clients
    for (const next of this.#clients) {
      if (hasShare(next[0])) continue
      ;[clientId, waiting] = next
      break
    }
    const [waiter] = waiting
    if (waiter === undefined) return undefined
    this.remove(clientId, waiter)
    if (this.#clients.delete(clientId)) this.#clients.set(clientId, waiting)
    return waiter
  }

  /**
   * Finds the waiter to drop for a new one: the last of the longest queue, only where that leaves queues more equal.
   */
  tailOfLongest (clientId: string): T | undefined {
    let longestSize = (this.#clients.get(clientId)?.size ?? 0) + 1
    let longestQueue: Set<T> | undefined
    for (const waiting of this.#clients.values()) {
      if (waiting.size <= longestSize) continue
      longestSize = waiting.size
      longestQueue = waiting
    }
    return longestQueue && [...longestQueue].at(-1)
  }
}

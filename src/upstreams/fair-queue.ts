/** Those who wait, by client: the clients are served in turn, each in the order of its coming. */
export class FairQueue<T extends object> {
  // In the order in which they are served; whoever was served goes to the end.
  readonly #clients = new Map<string, Set<T>>()
  #size = 0

  get size (): number {
    return this.#size
  }

  add (client: string, waiter: T): void {
    const waiting = this.#clients.get(client) ?? new Set()
    this.#clients.set(client, waiting.add(waiter))
    this.#size++
  }

  /** It waits no longer. */
  remove (client: string, waiter: T): void {
    const waiting = this.#clients.get(client)
    if (waiting?.delete(waiter) !== true) return
    this.#size--
    if (waiting.size === 0) this.#clients.delete(client)
  }

  /** Who is served next. */
  shift (): T | undefined {
    const [[client, waiting] = ['', new Set<T>()]] = this.#clients
    const [waiter] = waiting
    if (waiter === undefined) return undefined
    this.remove(client, waiter)
    if (this.#clients.delete(client)) this.#clients.set(client, waiting)
    return waiter
  }

  /**
   * Who is to make room for a client's next one: the last of whoever has most, where the two have no more difference
   * then than before.
   */
  lastOfMost (client: string): T | undefined {
    let most = (this.#clients.get(client)?.size ?? 0) + 1
    let whose: Set<T> | undefined
    for (const waiting of this.#clients.values()) {
      if (waiting.size <= most) continue
      most = waiting.size
      whose = waiting
    }
    return whose && [...whose].at(-1)
  }
}

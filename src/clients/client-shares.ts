/** Share of a scarce resource that one client may have while other clients need it. */
export const clientShare = 1 / 2

/** Groups by client what clients hold of a scarce resource, or wait for; the oldest item of a client comes first. */
export class ClientShares<T> {
  // Keeps service order: a served client moves to the end.
  readonly #clients = new Map<string, Set<T>>()
  #size = 0

  get size (): number {
    return this.#size
  }

  /** Lists the items of one client. */
  of (clientId: string): ReadonlySet<T> {
    return this.#clients.get(clientId) ?? new Set()
  }

  /** Lists the clients that have any item. */
  get clientIds (): readonly string[] {
    return [...this.#clients.keys()]
  }

  add (clientId: string, thing: T): void {
    const own = this.#clients.get(clientId) ?? new Set()
    this.#clients.set(clientId, own.add(thing))
    this.#size++
  }

  remove (clientId: string, thing: T): void {
    const own = this.#clients.get(clientId)
    if (own?.delete(thing) !== true) return
    this.#size--
    if (own.size === 0) this.#clients.delete(clientId)
  }

  /** True when a client other than this one has any item. */
  hasOther (clientId: string): boolean {
    return this.#clients.size > Number(this.#clients.has(clientId))
  }

  /**
   * Removes and returns an item of the next client in turn; clients for which `comesLast` is true come after all
   * others.
   */
  shift (comesLast: (clientId: string) => boolean): T | undefined {
    let [next] = this.#clients
    for (const each of this.#clients) {
      if (comesLast(each[0])) continue
      next = each
      break
    }
    if (next === undefined) return undefined
    const [clientId, own] = next
    const [thing] = own
    this.#clients.delete(clientId)
    this.#clients.set(clientId, own)
    if (thing !== undefined) this.remove(clientId, thing)
    return thing
  }

  /**
   * Finds the item to drop for one more item of a client: the newest of the client with the most, if that leaves
   * clients more equal.
   */
  newestOfLargest (clientId: string): T | undefined {
    let largest: ReadonlySet<T> = this.of(clientId)
    const most = largest.size + 1
    for (const own of this.#clients.values()) if (own.size > Math.max(most, largest.size)) largest = own
    return largest.size > most ? [...largest].at(-1) : undefined
  }
}

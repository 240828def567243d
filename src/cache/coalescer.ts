import { type FoundEntry } from './tier.js'

/** Result of a coalesced fetch; `isCollapsed` marks a result that another caller fetched (RFC 9211). */
export interface Coalesced<T> {
  readonly result: T
  readonly isCollapsed: boolean
}

/** Results of a request for a lease, as labels of the metric. */
export const leaseResults = ['taken', 'waited', 'not_stored', 'failed', 'lapsed'] as const

/** Result of a request for a lease. */
export type LeaseResult = typeof leaseResults[number]

/** Right of this process to fetch a read for others, or the end of its wait for the fetch of another process. */
export interface FetchLease {
  /** True if another process has fetched meanwhile, so a shared tier may have the entry. */
  readonly hasWaited: boolean
  /** Entry that the other process has sent; undefined if a shared tier has the entry, or if there is no entry. */
  readonly found: FoundEntry | undefined
  /** True if the entry must be given to `end`, because the processes that wait share no tier. */
  readonly sendsEntry: boolean
  /**
   * Says how the fetch has ended: if other processes can have its entry, and if another process had stored the entry.
   * Only the first call counts.
   */
  end(isStored: boolean, how?: { readonly wasFound?: boolean, readonly found?: FoundEntry }): void
}

/** Predicate for results that several callers may share; a streamed body has one reader. */
export type IsShareable<T> = (result: T) => boolean

/**
 * Coalesces equal reads into one fetch. A caller that gives up cancels no other caller. A failure reaches only the
 * caller that started the fetch; the other callers retry together.
 */
export class Coalescer<T> {
  readonly #inFlight = new Map<string, Promise<T>>()
  readonly #isShareable: IsShareable<T>

  constructor (isShareable: IsShareable<T>) {
    this.#isShareable = isShareable
  }

  /** Joins an equal fetch in flight, or starts `load`. */
  async run (key: string, load: () => Promise<T>): Promise<Coalesced<T>> {
    // Fast path: most fetches have nothing to join.
    if (!this.#inFlight.has(key)) return { result: await this.#start(key, load), isCollapsed: false }
    return await joinOrStart(() => this.#inFlight.get(key), () => this.#start(key, load), load, this.#isShareable)
  }

  /** Reports an equal fetch in flight. */
  has (key: string): boolean {
    return this.#inFlight.has(key)
  }

  get size (): number {
    return this.#inFlight.size
  }

  #start (key: string, load: () => Promise<T>): Promise<T> {
    const loading = load()
    this.#inFlight.set(key, loading)
    const untrack = (): void => {
      this.#inFlight.delete(key)
    }
    // Registers `untrack` before callers wait for the fetch, so that they find nothing in flight once it has ended.
    loading.then(untrack, untrack)
    return loading
  }
}

/**
 * Coalesces latest reads (law 5: a latest read is never older than its request). A read joins only a fetch that has not
 * started, so one fetch runs and at most one waits.
 */
export class FreshCoalescer<T> {
  readonly #inFlight = new Map<string, Promise<unknown>>()
  readonly #notStarted = new Map<string, Promise<T>>()
  readonly #isShareable: IsShareable<T>

  constructor (isShareable: IsShareable<T>) {
    this.#isShareable = isShareable
  }

  /** Joins a waiting fetch, or schedules `load` after the equal fetch in flight. */
  async run (key: string, load: () => Promise<T>): Promise<Coalesced<T>> {
    return await joinOrStart(
      () => this.#notStarted.get(key),
      () => this.#startAfterCurrent(key, load),
      load,
      this.#isShareable
    )
  }

  get size (): number {
    return this.#inFlight.size + this.#notStarted.size
  }

  async #startAfterCurrent (key: string, load: () => Promise<T>): Promise<T> {
    // With nothing in flight, loading starts in a microtask, so reads of the same tick still join.
    const current = this.#inFlight.get(key) ?? Promise.resolve()
    const loading = current.then(async () => {
      this.#notStarted.delete(key)
      return await this.#start(key, load)
    })
    this.#notStarted.set(key, loading)
    return await loading
  }

  #start (key: string, load: () => Promise<T>): Promise<T> {
    const loading = load()
    const done = loading.then(() => {}, () => {}).then(() => {
      if (this.#inFlight.get(key) === done) this.#inFlight.delete(key)
    })
    this.#inFlight.set(key, done)
    return loading
  }
}

/** Retries once when a joined fetch fails, since the failure belongs to the caller that started it. */
async function joinOrStart<T> (
  joinable: () => Promise<T> | undefined,
  start: () => Promise<T>,
  load: () => Promise<T>,
  isShareable: IsShareable<T>
): Promise<Coalesced<T>> {
  const first = joinable()
  if (first === undefined) return { result: await start(), isCollapsed: false }
  const settled = await first.then(result => ({ result }), () => undefined)
  if (settled !== undefined) return await shareOrLoad(settled.result, load, isShareable)
  const next = joinable()
  return next === undefined
    ? { result: await start(), isCollapsed: false }
    : await shareOrLoad(await next, load, isShareable)
}

// Unshareable results are loaded in parallel: one after another, each caller would wait for the slowest reader.
async function shareOrLoad<T> (result: T, load: () => Promise<T>, isShareable: IsShareable<T>): Promise<Coalesced<T>> {
  return isShareable(result) ? { result, isCollapsed: true } : { result: await load(), isCollapsed: false }
}

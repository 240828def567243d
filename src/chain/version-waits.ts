import { type Tracker } from './tracker.js'

/** Results of a wait for a version; `too_many_waits` where the total or the client's limit is used up. */
export const versionWaitResults = ['reached', 'timeout', 'too_many_waits'] as const

/** One result of a wait. */
export type VersionWaitResult = typeof versionWaitResults[number]

/** Polls of the upstreams' heads while a request waits. */
export interface WaiterPolling {
  start(): void
  stop(): void
}

interface Waiter {
  readonly version: bigint
  readonly finish: (result: VersionWaitResult) => void
}

// Each wait costs a pending request, a timer and a promise; beyond this many, requests do not wait (law 10: nothing
// grows without bound).
const maxWaits = 1000

// One client that waits for versions far ahead must leave waits for others.
const maxWaitsPerClient = 250

/** Requests that wait until the served head reaches a version. */
export class VersionWaits {
  readonly #tracker: Pick<Tracker, 'known'>
  readonly #polling: WaiterPolling
  readonly #waiters = new Set<Waiter>()
  readonly #byClient = new Map<string, number>()
  #isClosed = false

  constructor (tracker: Pick<Tracker, 'known'>, polling: WaiterPolling) {
    this.#tracker = tracker
    this.#polling = polling
  }

  /** Number of waits now. */
  get waiting (): number {
    return this.#waiters.size
  }

  /** Waits until the served head reaches a version, or the timeout passes. */
  async waitFor (version: bigint, timeoutMs: number, clientId = ''): Promise<VersionWaitResult> {
    if (this.#hasReached(version)) return 'reached'
    if (this.#isClosed) return 'timeout'
    const waitsOfClient = this.#byClient.get(clientId) ?? 0
    if (this.#waiters.size >= maxWaits || waitsOfClient >= maxWaitsPerClient) return 'too_many_waits'
    this.#byClient.set(clientId, waitsOfClient + 1)
    return await new Promise(resolve => {
      const waiter: Waiter = {
        version,
        finish: result => {
          clearTimeout(timer)
          this.#waiters.delete(waiter)
          this.#releaseWait(clientId)
          if (this.#waiters.size === 0) this.#polling.stop()
          resolve(result)
        }
      }
      // A process with no other work has no client left to serve.
      const timer = setTimeout(() => waiter.finish('timeout'), timeoutMs).unref()
      this.#waiters.add(waiter)
      if (this.#waiters.size === 1) this.#polling.start()
    })
  }

  /** Resolves the waits that the served head has reached. */
  finishReached (): void {
    for (const waiter of this.#waiters) if (this.#hasReached(waiter.version)) waiter.finish('reached')
  }

  /** Ends all waits as timeouts; new ones end at once. */
  close (): void {
    this.#isClosed = true
    for (const waiter of this.#waiters) waiter.finish('timeout')
  }

  #hasReached (version: bigint): boolean {
    const known = this.#tracker.known?.position.head.version
    return known !== undefined && version <= known
  }

  #releaseWait (clientId: string): void {
    const waits = this.#byClient.get(clientId)
    if (waits === undefined || waits === 1) this.#byClient.delete(clientId)
    else this.#byClient.set(clientId, waits - 1)
  }
}

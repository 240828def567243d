import { type Tracker } from './tracker.js'

/** Results of a wait for a version; `too_many_waits` where the total or the client's limit is used up. */
export const versionWaitResults = ['reached', 'timeout', 'too_many_waits'] as const

/** One result of a wait. */
export type VersionWaitResult = typeof versionWaitResults[number]

/** Clock and polling for waits. */
export interface VersionWaitsOptions {
  readonly now: () => number
  /** Polls the upstreams' heads now, because a client waits. */
  requestPoll(): void
}

interface Waiter {
  readonly version: bigint
  readonly finish: (result: VersionWaitResult) => void
}

// Each wait costs a pending request, a timer and a promise; beyond this many, requests do not wait (law 10).
const maxWaits = 1000

// One client that waits for versions far ahead must leave waits for others.
const maxWaitsPerClient = 250

// Regular polls are too rare for a wait of half a second.
const pollEveryMs = 100

/** Requests that wait until the served head reaches a version. */
export class VersionWaits {
  readonly #tracker: Pick<Tracker, 'position'>
  readonly #options: VersionWaitsOptions
  readonly #waiters = new Set<Waiter>()
  readonly #byClient = new Map<string, number>()
  #isClosed = false
  #pollTimer: NodeJS.Timeout | undefined
  #polledAtMs = -Infinity

  constructor (tracker: Pick<Tracker, 'position'>, options: VersionWaitsOptions) {
    this.#tracker = tracker
    this.#options = options
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
          if (this.#waiters.size === 0) this.#stopPolling()
          resolve(result)
        }
      }
      // A process with no other work has no client left to serve.
      const timer = setTimeout(() => {
        waiter.finish('timeout')
      }, timeoutMs).unref()
      this.#waiters.add(waiter)
      if (this.#waiters.size === 1) this.#startPolling()
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
    const served = this.#tracker.position?.head.version
    return served !== undefined && version <= served
  }

  #releaseWait (clientId: string): void {
    const left = (this.#byClient.get(clientId) ?? 0) - 1
    if (left > 0) this.#byClient.set(clientId, left)
    else this.#byClient.delete(clientId)
  }

  // Polls at once too, because the head may have advanced since the last poll.
  #startPolling (): void {
    this.#pollTimer = setInterval(() => {
      this.#poll()
    }, pollEveryMs).unref()
    if (this.#options.now() - this.#polledAtMs >= pollEveryMs) this.#poll()
  }

  #stopPolling (): void {
    clearInterval(this.#pollTimer)
    this.#pollTimer = undefined
  }

  #poll (): void {
    this.#polledAtMs = this.#options.now()
    this.#options.requestPoll()
  }
}

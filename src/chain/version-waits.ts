import { waiterPollEveryMs } from '../upstreams/polling-policy.js'
import { type Tracker } from './tracker.js'

/**
 * Results of a wait for a version; `too_many_waits` if all waits together, or the waits of the client, have reached
 * their limit.
 */
export const versionWaitResults = ['reached', 'timeout', 'too_many_waits'] as const

/** One result of a wait. */
export type VersionWaitResult = typeof versionWaitResults[number]

interface Waiter {
  readonly version: bigint
  readonly finish: (result: VersionWaitResult) => void
}

// Each wait costs a pending request, a timer and a promise; beyond this many, requests do not wait (law 10: nothing
// grows without bound).
const maxWaits = 1000

// Limits the waits of one client, so that it leaves some to others.
const maxWaitsPerClient = 250

/** Requests that wait until the served head reaches a version. */
export class VersionWaits {
  readonly #tracker: Pick<Tracker, 'known'>
  readonly #poll: () => void
  readonly #now: () => number
  readonly #waiters = new Set<Waiter>()
  readonly #byClient = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #polledAtMs = -Infinity
  #isClosed = false

  /** `poll` asks the upstreams for their heads, at once and then at a short interval until no request waits. */
  constructor (tracker: Pick<Tracker, 'known'>, poll: () => void, now: () => number) {
    this.#tracker = tracker
    this.#poll = poll
    this.#now = now
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
          if (this.#waiters.size === 0) clearInterval(this.#timer)
          resolve(result)
        }
      }
      // Does not keep the process alive: a process with no other work has no client left.
      const timer = setTimeout(() => waiter.finish('timeout'), timeoutMs).unref()
      this.#waiters.add(waiter)
      if (this.#waiters.size === 1) this.#startPolling()
    })
  }

  /** Resolves the waits that the served head has reached. */
  finishReached (): void {
    for (const waiter of this.#waiters) if (this.#hasReached(waiter.version)) waiter.finish('reached')
  }

  /** Ends all waits as timeouts; later waits end at once. */
  close (): void {
    this.#isClosed = true
    for (const waiter of this.#waiters) waiter.finish('timeout')
  }

  // Polls at once too, because the head may have advanced since the last poll.
  #startPolling (): void {
    this.#timer = setInterval(() => this.#pollNow(), waiterPollEveryMs).unref()
    if (this.#now() - this.#polledAtMs >= waiterPollEveryMs) this.#pollNow()
  }

  #pollNow (): void {
    this.#polledAtMs = this.#now()
    this.#poll()
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

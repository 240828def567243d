import { type HeadPoller } from './head-poller.js'
import { isPolledForWaiters, quarantinedPollEveryMs, waiterPollEveryMs } from './polling-policy.js'
import { type Upstream } from './upstream.js'
import { type UpstreamClient } from './upstream-client.js'

/** An upstream with its polls. */
export interface UpstreamPoll {
  readonly upstream: Upstream
  readonly poll: HeadPoller
}

/** Polls of all upstreams, in configuration order; empty until a configuration is applied. */
export class HeadPollers {
  readonly #isChainKnown: () => boolean
  readonly #now: () => number
  #heads: readonly UpstreamPoll[] = []
  #polledQuarantinedAtMs = -Infinity

  constructor (isChainKnown: () => boolean, now: () => number) {
    this.#isChainKnown = isChainKnown
    this.#now = now
  }

  replace (heads: readonly UpstreamPoll[]): void {
    this.#heads = heads
  }

  /** Starts all polls; resolves when the chain is known or all first polls have ended. */
  async start (): Promise<void> {
    await this.#waitForChain(async poll => {
      await poll.start()
    })
  }

  stop (): void {
    for (const { poll } of this.#heads) poll.stop()
  }

  /** Polls all upstreams; resolves when the chain is known or all polls have ended. */
  async resolveChain (): Promise<void> {
    await this.#waitForChain(async poll => {
      await poll.poll()
    })
  }

  /** Resolves after the first polls of unknown upstreams before this one in configuration order. */
  async waitForEarlier (client: UpstreamClient): Promise<void> {
    const earlier = this.#heads.slice(0, this.#heads.findIndex(({ upstream }) => upstream.client === client))
    await Promise.all(earlier.map(async ({ upstream, poll }) => {
      if (upstream.state === 'unknown') await poll.first()
    }))
  }

  /** Polls one upstream by name. */
  async poll (name: string): Promise<void> {
    await this.#heads.find(({ upstream }) => upstream.client.name === name)?.poll.poll()
  }

  async pollAll (): Promise<void> {
    await Promise.all(this.#heads.map(async ({ poll }) => {
      await poll.poll()
    }))
  }

  /** Polls upstreams at once, because a request waits for a version. */
  pollForWaiters (): void {
    for (const { upstream, poll } of this.#heads) {
      if (isPolledForWaiters(upstream, upstream.client.limiter.isBusy())) poll.poll().catch(() => {})
    }
  }

  /** Polls all upstreams, because reads find every one quarantined; resolves when the polls have ended. */
  async pollQuarantined (): Promise<void> {
    if (this.#now() - this.#polledQuarantinedAtMs < quarantinedPollEveryMs) return
    this.#polledQuarantinedAtMs = this.#now()
    await this.pollAll()
  }

  /** Verifies every upstream again, because a chain reset is possible (law 7: chains never mix). */
  async reverifyAll (): Promise<void> {
    for (const { upstream } of this.#heads) upstream.markUnverified()
    await this.pollAll()
  }

  // Waits in configuration order: the first upstream that responds decides the chain.
  async #waitForChain (pollOne: (poll: HeadPoller) => Promise<void>): Promise<void> {
    const polls = this.#heads.map(async ({ poll }) => {
      await pollOne(poll)
    })
    for (const poll of polls) if (!this.#isChainKnown()) await poll
  }
}

/** Polls for requests that wait for a version: at once, then at a short interval until none waits. */
export class WaiterPolls {
  readonly #poll: () => void
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined
  #polledAtMs = -Infinity

  constructor (poll: () => void, now: () => number) {
    this.#poll = poll
    this.#now = now
  }

  // Polls at once too, because the head may have advanced since the last poll.
  start (): void {
    this.#timer = setInterval(() => {
      this.#pollNow()
    }, waiterPollEveryMs).unref()
    if (this.#now() - this.#polledAtMs >= waiterPollEveryMs) this.#pollNow()
  }

  stop (): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #pollNow (): void {
    this.#polledAtMs = this.#now()
    this.#poll()
  }
}

import { type Position, type ResponsePosition } from '../api/position.js'
import { gasEstimateTarget, indexTarget } from '../api/request-targets.js'
import { releaseInIndex, type UpstreamResponse } from '../api/upstream-response.js'
import { QuarantinedError, UnprovenPositionError } from './chain-guard.js'
import {
  isPollDue,
  mayPollBesideHanging,
  pollIntervalMs,
  reachabilityTimeoutMs,
  type PolledUpstream,
  quarantinedPollEveryMs
} from './polling-policy.js'
import { UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest, probeRequest } from './upstream-request.js'
import { type Upstream } from './upstream.js'

/** Upstream that is polled, with transport, interval and notifications. */
export interface HeadPollOptions {
  readonly upstream: PolledUpstream & { markSilent(): void }
  readonly fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
  /** Learns a head; returns `other_chain` if the head is not of our chain. */
  readonly heads: { learn(position: Position, family: string, encryptionKey: string | undefined): string }
  readonly pollMs: number
  /** Returns the time since a peer reported a head that was new here; absent without peers. */
  readonly peerHeadAgeMs?: () => number
  readonly now: () => number
  readonly onRelease: (release: string) => void
  /** Runs after a poll that says something about the upstream. */
  readonly onPolled: () => void
  /** Runs at every interval, also when no poll is due. */
  readonly onTick?: () => void
}

/** Polls one upstream by the polling policy, and reads its release. */
export class HeadPoller {
  readonly #options: HeadPollOptions
  #timer: NodeJS.Timeout | undefined
  #sentAtMs = -Infinity
  #respondedAtMs = -Infinity
  #polling: Promise<void> | undefined
  #first: Promise<void> | undefined
  #inFlight = 0
  #isStopped = false

  constructor (options: HeadPollOptions) {
    this.#options = options
  }

  /** Polls at once, then whenever a poll is due; resolves after the first poll, also when it fails. */
  async start (): Promise<void> {
    const { upstream, pollMs, peerHeadAgeMs = () => Infinity, onTick } = this.#options
    const tick = (): void => {
      if (isPollDue(upstream, pollMs, this.#sinceSentMs, peerHeadAgeMs())) this.poll().catch(() => {})
      onTick?.()
    }
    const intervalMs = pollIntervalMs(pollMs)
    // Offsets the polls of processes that start together, so that one poll can serve the others.
    this.#timer = setTimeout(() => {
      this.#timer = setInterval(tick, intervalMs).unref()
      tick()
    }, Math.random() * intervalMs).unref()
    this.#first = this.poll()
    await this.#first
  }

  /** Resolves after the first poll; polls once if polling has not started. */
  async first (): Promise<void> {
    await (this.#first ?? this.poll())
  }

  stop (): void {
    this.#isStopped = true
    clearInterval(this.#timer)
  }

  /** Polls now; concurrent callers share one poll. */
  async poll (): Promise<void> {
    if (this.#isStopped) return
    if (this.#polling === undefined || mayPollBesideHanging(this.#inFlight, this.#sinceSentMs)) {
      const poll = this.#pollOnce().finally(() => {
        this.#inFlight--
        if (this.#polling === poll) this.#polling = undefined
      })
      this.#inFlight++
      this.#polling = poll
    }
    await this.#polling
  }

  get #sinceSentMs (): number {
    return this.#options.now() - this.#sentAtMs
  }

  async #pollOnce (): Promise<void> {
    const { upstream, fetch, heads, now, onRelease, onPolled } = this.#options
    const sentAtMs = now()
    this.#sentAtMs = sentAtMs
    let isOffChain = false
    let stamped: ResponsePosition | undefined
    try {
      const polled = await fetchHeadAndRelease(fetch)
      stamped = polled.stamped
      if (stamped !== undefined) {
        isOffChain = heads.learn(stamped.position, stamped.family, stamped.encryptionKey) === 'other_chain'
        if (!isOffChain) this.#respondedAtMs = now()
        if (!isOffChain && polled.release !== undefined) onRelease(polled.release)
      }
    } catch (error) {
      // Leaves a failure to the upstream client, which counts it. Ignores a cancelled, unsent or overtaken poll, which
      // says nothing about the upstream.
      const isIgnored = error instanceof UpstreamFailure && isInconclusive(error)
      if (this.#isStopped || isIgnored || sentAtMs < this.#respondedAtMs) return
      isOffChain = error instanceof QuarantinedError || error instanceof UnprovenPositionError
    }
    // Records an upstream that responds without a position. An upstream that limits our rate or fails is not silent.
    if (stamped === undefined && !isOffChain && upstream.state === 'up') upstream.markSilent()
    onPolled()
  }
}

/** Returns true if an upstream reports a head, whatever its health. */
export async function isReachable (upstream: Pick<Upstream, 'send' | 'timeoutMs'>): Promise<boolean> {
  // Tries twice, because one failure alone proves nothing.
  return (await readHeadInTime(upstream) ?? await readHeadInTime(upstream)) !== undefined
}

/** Reads an upstream's head within a second, whatever its health; undefined if that fails. */
export async function readHeadInTime (
  upstream: Pick<Upstream, 'send' | 'timeoutMs'>
): Promise<ResponsePosition | undefined> {
  const timeoutMs = Math.min(upstream.timeoutMs, reachabilityTimeoutMs)
  return await readHead(async request => await upstream.send(request, timeoutMs))
}

/** Reads an upstream's head; undefined if its responses carry no position, or fail. */
export async function readHead (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
): Promise<ResponsePosition | undefined> {
  return await fetchHeadAndRelease(fetch).then(({ stamped }) => stamped, () => undefined)
}

/**
 * Reads the index, or else the gas estimate, because gateways hide the index or drop its position headers.
 */
async function fetchHeadAndRelease (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
): Promise<{ stamped: ResponsePosition | undefined, release: string | undefined }> {
  const index = await sendProbe(fetch, indexTarget)
  const release = index.status === 200 ? releaseInIndex(index.body) : undefined
  if (index.status === 200 && index.stamped !== undefined) return { stamped: index.stamped, release }
  // Sends no second request to an upstream that fails or limits our rate.
  if (index.status === 429 || index.status >= 500) return { stamped: undefined, release }
  const gas = await sendProbe(fetch, gasEstimateTarget)
  return { stamped: gas.status === 200 ? gas.stamped : undefined, release }
}

async function sendProbe (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>,
  target: string
): Promise<UpstreamResponse> {
  const response = await fetch(probeRequest(target))
  response.rest?.destroy()
  return response
}

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
    await this.#waitForChain(async poll => await poll.start())
  }

  stop (): void {
    for (const { poll } of this.#heads) poll.stop()
  }

  /** Polls all upstreams; resolves when the chain is known or all polls have ended. */
  async resolveChain (): Promise<void> {
    await this.#waitForChain(async poll => await poll.poll())
  }

  /**
   * Resolves after the first polls of those upstreams before this one, in configuration order, whose state is unknown.
   */
  async waitForEarlier (earlierThan: Upstream): Promise<void> {
    const earlier = this.#heads.slice(0, this.#heads.findIndex(({ upstream }) => upstream === earlierThan))
    await Promise.all(earlier.map(async ({ upstream, poll }) => {
      if (upstream.state === 'unknown') await poll.first()
    }))
  }

  /** Polls one upstream by name. */
  async poll (name: string): Promise<void> {
    await this.#heads.find(({ upstream }) => upstream.name === name)?.poll.poll()
  }

  async pollAll (): Promise<void> {
    await Promise.all(this.#heads.map(async ({ poll }) => await poll.poll()))
  }

  /**
   * Polls healthy upstreams at once, because a request waits for a version. Skips those that are down, which have polls
   * of their own, and busy ones, whose slots belong to reads.
   */
  pollForWaiters (): void {
    for (const { upstream, poll } of this.#heads) {
      if (upstream.state === 'up' && !upstream.limiter.isBusy()) poll.poll().catch(() => {})
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
    for (const { upstream } of this.#heads) upstream.guard.markUnverified()
    await this.pollAll()
  }

  // Waits in configuration order: the first upstream that responds decides the chain.
  async #waitForChain (pollOne: (poll: HeadPoller) => Promise<void>): Promise<void> {
    const polls = this.#heads.map(async ({ poll }) => await pollOne(poll))
    for (const poll of polls) if (!this.#isChainKnown()) await poll
  }
}

import { type StampedPosition } from '../api/position.js'
import { gasEstimateTarget, indexTarget } from '../api/targets.js'
import { type Tracker } from './tracker.js'
import { readRelease, type UpstreamResponse } from '../api/upstream-response.js'
import { UpstreamFailure, isInconclusive } from '../upstreams/upstream-failure.js'
import { QuarantinedError } from '../upstreams/quarantine.js'
import { type UpstreamRequest, probeRequest } from '../upstreams/upstream-request.js'

/** Interval, conditions and notifications of polling one upstream. */
export interface HeadPollOptions {
  readonly pollMs: number
  readonly now: () => number
  /** Returns true if no recent response has confirmed the upstream's position. */
  readonly isDue: () => boolean
  readonly onState: (state: PollState) => void
  readonly onRelease: (release: string) => void
  /** Runs at every interval, also when no poll is due. */
  readonly onTick?: () => void
}

/** Outcome of a poll. */
export type PollState = 'answered' | 'unanswered' | 'other_chain'

// An upstream that recovers must be used again within two seconds, whatever `pollMs` is.
const maxPollIntervalMs = 1000

// A poll that hangs must not delay the next one, so several may be in flight.
const maxConcurrentPolls = 8

// Refreshes the release at least this often, whatever the traffic (law 8).
const readReleaseEveryMs = 15_000

/** Polls an upstream while client traffic does not refresh its position, and reads its release. */
export class HeadPoll {
  readonly #fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
  readonly #tracker: Tracker
  readonly #options: HeadPollOptions
  #timer: NodeJS.Timeout | undefined
  #sentAtMs = -Infinity
  #answeredAtMs = -Infinity
  #polling: Promise<void> | undefined
  #first: Promise<void> | undefined
  #inFlight = 0
  #isStopped = false

  constructor (
    fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>,
    tracker: Tracker,
    options: HeadPollOptions
  ) {
    this.#fetch = fetch
    this.#tracker = tracker
    this.#options = options
  }

  /** Polls at once, then whenever a poll is due; resolves after the first poll, also when it fails. */
  async start (): Promise<void> {
    const everyMs = Math.min(this.#options.pollMs, maxPollIntervalMs)
    this.#timer = setInterval(() => {
      if (this.#isDue()) this.poll().catch(() => {})
      this.#options.onTick?.()
    }, everyMs).unref()
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
    if (this.#polling === undefined || this.#isHanging) {
      const poll = this.#pollOnce().finally(() => {
        this.#inFlight--
        if (this.#polling === poll) this.#polling = undefined
      })
      this.#inFlight++
      this.#polling = poll
    }
    await this.#polling
  }

  get #isHanging (): boolean {
    return this.#options.now() - this.#sentAtMs >= 0.9 * maxPollIntervalMs && this.#inFlight < maxConcurrentPolls
  }

  #isDue (): boolean {
    return this.#options.isDue() || this.#options.now() - this.#sentAtMs >= readReleaseEveryMs
  }

  async #pollOnce (): Promise<void> {
    const sentAtMs = this.#options.now()
    this.#sentAtMs = sentAtMs
    try {
      const { stamped, release } = await fetchHeadAndRelease(this.#fetch)
      if (stamped === undefined) return this.#options.onState('unanswered')
      const learned = this.#tracker.learn(stamped.position, stamped.family)
      if (learned === 'other_chain') return this.#options.onState('other_chain')
      this.#answeredAtMs = this.#options.now()
      if (release !== undefined) this.#options.onRelease(release)
      this.#options.onState('answered')
    } catch (error) {
      // The upstream client counts the failure. A cancelled, unsent or overtaken poll says nothing about the upstream.
      const isIgnored = error instanceof UpstreamFailure && isInconclusive(error)
      if (!this.#isStopped && !isIgnored && sentAtMs >= this.#answeredAtMs) {
        this.#options.onState(error instanceof QuarantinedError ? 'other_chain' : 'unanswered')
      }
    }
  }
}

/** Reads an upstream's head; undefined where its responses carry no position, or fail. */
export async function readHead (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
): Promise<StampedPosition | undefined> {
  return await fetchHeadAndRelease(fetch).then(({ stamped }) => stamped, () => undefined)
}

/**
 * Reads the index, or else the gas estimate, because gateways hide the index or drop its position headers.
 */
async function fetchHeadAndRelease (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
): Promise<{ stamped: StampedPosition | undefined, release: string | undefined }> {
  const index = await sendProbe(fetch, indexTarget)
  const release = index.status === 200 ? readRelease(index.body) : undefined
  if (index.status === 200 && index.stamped !== undefined) return { stamped: index.stamped, release }
  // An upstream that fails or limits us gets no second request.
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

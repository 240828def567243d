import { type Position, type ResponsePosition } from '../api/position.js'
import { gasEstimateTarget, indexTarget } from '../api/request-targets.js'
import { releaseInIndex, type UpstreamResponse } from '../api/upstream-response.js'
import { QuarantinedError, UnprovenPositionError } from './chain-guard.js'
import {
  isPollDue,
  lacksPosition,
  mayPollBesideHanging,
  pollIntervalMs,
  reachability,
  type PolledUpstream
} from './polling-policy.js'
import { type UpstreamClient } from './upstream-client.js'
import { UpstreamFailure, isInconclusive } from './upstream-failure.js'
import { type UpstreamRequest, probeRequest } from './upstream-request.js'

/** Upstream, transport, interval and notifications of polling one upstream. */
export interface HeadPollOptions {
  readonly upstream: PolledUpstream & { markSilent(): void }
  readonly fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>
  readonly heads: HeadLearner
  readonly pollMs: number
  readonly now: () => number
  readonly onRelease: (release: string) => void
  readonly onPolled: (result: PollOutcome) => void
  /** Runs at every interval, also when no poll is due. */
  readonly onTick?: () => void
}

/** Learns the heads that polls report. */
export interface HeadLearner {
  /** Returns `other_chain` for a head that is not of our chain. */
  learn(position: Position, family: string, encryptionKey: string | undefined): string
}

/** Outcome of a poll. */
export type PollOutcome = 'answered' | 'unanswered' | 'other_chain'

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
    const { upstream, pollMs, onTick } = this.#options
    this.#timer = setInterval(() => {
      if (isPollDue(upstream, pollMs, this.#sinceSentMs)) this.poll().catch(() => {})
      onTick?.()
    }, pollIntervalMs(pollMs)).unref()
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
    const { fetch, heads, now, onRelease } = this.#options
    const sentAtMs = now()
    this.#sentAtMs = sentAtMs
    try {
      const { stamped, release } = await fetchHeadAndRelease(fetch)
      if (stamped === undefined) return this.#report('unanswered')
      const { position, family, encryptionKey } = stamped
      if (heads.learn(position, family, encryptionKey) === 'other_chain') return this.#report('other_chain')
      this.#respondedAtMs = now()
      if (release !== undefined) onRelease(release)
      this.#report('answered')
    } catch (error) {
      // The upstream client counts the failure. A cancelled, unsent or overtaken poll says nothing about the upstream.
      const isIgnored = error instanceof UpstreamFailure && isInconclusive(error)
      if (!this.#isStopped && !isIgnored && sentAtMs >= this.#respondedAtMs) {
        const isOffChain = error instanceof QuarantinedError || error instanceof UnprovenPositionError
        this.#report(isOffChain ? 'other_chain' : 'unanswered')
      }
    }
  }

  #report (outcome: PollOutcome): void {
    const { upstream, onPolled } = this.#options
    if (outcome === 'unanswered' && lacksPosition(upstream)) upstream.markSilent()
    onPolled(outcome)
  }
}

/** Returns true if an upstream reports a head, whatever its health. */
export async function isReachable (client: Pick<UpstreamClient, 'fetch' | 'timeoutMs'>): Promise<boolean> {
  for (let polls = 0; polls < reachability.polls; polls++) {
    if (await readHeadInTime(client) !== undefined) return true
  }
  return false
}

/** Reads an upstream's head within a second, whatever its health; undefined where that fails. */
export async function readHeadInTime (
  client: Pick<UpstreamClient, 'fetch' | 'timeoutMs'>
): Promise<ResponsePosition | undefined> {
  const timeoutMs = Math.min(client.timeoutMs, reachability.timeoutMs)
  return await readHead(async request => await client.fetch(request, timeoutMs))
}

/** Reads an upstream's head; undefined where its responses carry no position, or fail. */
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

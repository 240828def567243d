import { type ResponseHeaders } from '../api/position.js'
import { indexTarget } from '../api/request-targets.js'
import { freshResultMs, mayPollBesideHanging } from './polling-policy.js'
import { type UpstreamClient, type Transport } from './upstream-client.js'
import { type FailureReason, UpstreamFailure } from './upstream-failure.js'
import { probeRequest } from './upstream-request.js'
import { type ReceivedResponse } from './response-receiver.js'

/** Result of polling an upstream. */
export type PollResult =
  | { readonly status: number, readonly headers: ResponseHeaders, readonly body: Uint8Array }
  | { readonly failure: FailureReason }

type OnPollResult = (upstream: string, target: string, result: PollResult) => void

/** Polls of one target at one upstream. */
interface SharedPollState {
  readonly client: UpstreamClient
  readonly target: string
  inFlight: number
  lastSentAtMs: number
  lastRespondedSentAtMs: number
  latest: { readonly result: PollResult, readonly atMs: number } | undefined
}

/** Polls each upstream once for all workers, and publishes the result to all. */
export class SharedPoller {
  #clients: ReadonlyMap<string, UpstreamClient>
  readonly #now: () => number
  readonly #onPollResult: OnPollResult
  // Keyed by upstream and target; each upstream has two targets.
  readonly #states = new Map<string, SharedPollState>()
  #isClosed = false

  constructor (clients: readonly UpstreamClient[], now: () => number, onPollResult: OnPollResult) {
    this.#clients = new Map(clients.map(client => [client.name, client]))
    this.#now = now
    this.#onPollResult = onPollResult
  }

  /** Polls on behalf of a worker, unless a poll in flight or a recent result serves it too. */
  poll (name: string, target: string, timeoutMs: number): void {
    const client = this.#clients.get(name)
    if (client === undefined || this.#isClosed) return
    const state = this.#stateOf(client, target)
    const nowMs = this.#now()
    if (state.latest !== undefined && nowMs - state.latest.atMs < freshResultMs) {
      return this.#onPollResult(name, target, state.latest.result)
    }
    if (state.inFlight === 0 || mayPollBesideHanging(state.inFlight, nowMs - state.lastSentAtMs)) {
      this.#send(state, timeoutMs).catch(() => {})
    }
  }

  /** Polls other upstreams from now on; the clients that left close after their requests in flight. */
  replaceClients (clients: readonly UpstreamClient[]): void {
    const left = [...this.#clients.values()].filter(client => !clients.includes(client))
    this.#clients = new Map(clients.map(client => [client.name, client]))
    for (const [key, { client }] of this.#states) if (left.includes(client)) this.#states.delete(key)
    for (const client of left) client.drain().catch(() => {})
  }

  /** Stops polling and publishing. */
  async close (): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#clients.values()].map(async client => await client.close()))
  }

  async #send (state: SharedPollState, timeoutMs: number): Promise<void> {
    const sentAtMs = this.#now()
    state.lastSentAtMs = sentAtMs
    state.inFlight++
    try {
      const { status, headers, body, rest } = await state.client.fetch(probeRequest(state.target), timeoutMs)
      rest?.destroy()
      state.lastRespondedSentAtMs = Math.max(state.lastRespondedSentAtMs, sentAtMs)
      this.#publish(state, { status, headers, body })
    } catch (error) {
      // A failure says nothing once a later poll has succeeded.
      if (sentAtMs >= state.lastRespondedSentAtMs) {
        this.#publish(state, { failure: error instanceof UpstreamFailure ? error.reason : 'unreachable' })
      }
    } finally {
      state.inFlight--
    }
  }

  #publish (state: SharedPollState, result: PollResult): void {
    if (this.#isClosed) return
    state.latest = { result, atMs: this.#now() }
    this.#onPollResult(state.client.name, state.target, result)
  }

  #stateOf (client: UpstreamClient, target: string): SharedPollState {
    const key = `${client.name} ${target}`
    const state = this.#states.get(key) ??
      { client, target, inFlight: 0, lastSentAtMs: -Infinity, lastRespondedSentAtMs: -Infinity, latest: undefined }
    this.#states.set(key, state)
    return state
  }
}

/** A probe of this worker that waits for its result. */
interface PendingProbe {
  readonly upstream: string
  readonly target: string
  settle(result: PollResult | Error): void
}

/** Sends a worker's probes through the primary process, which polls each upstream once for all workers. */
export class ProbesThroughPrimary {
  readonly #poll: (upstream: string, target: string, timeoutMs: number) => void
  // Bounded by the number of polls in flight (law 10: nothing grows without bound).
  readonly #pending = new Set<PendingProbe>()
  #latest: { readonly upstream: string, readonly target: string, readonly result: PollResult } | undefined

  /** Takes the function that asks the primary process to poll. */
  constructor (poll: (upstream: string, target: string, timeoutMs: number) => void) {
    this.#poll = poll
  }

  /** Builds a transport that carries the probes of one upstream. */
  transportTo ({ name: upstream, timeoutMs }: { readonly name: string, readonly timeoutMs: number }): Transport {
    return {
      send: ({ target }, _maxBytes, _slot, onDone) => {
        let settle: PendingProbe['settle'] = () => {}
        const received = new Promise<ReceivedResponse>((resolve, reject) => {
          settle = result => {
            if (!this.#pending.delete(probe)) return
            onDone()
            if (result instanceof Error) reject(result)
            else if ('failure' in result) reject(new UpstreamFailure(upstream, result.failure, undefined))
            else resolve({ ...result, body: Buffer.from(result.body), rest: undefined })
          }
        })
        const probe = { upstream, target, settle }
        this.#pending.add(probe)
        if (this.#latest?.upstream === upstream && this.#latest.target === target) settle(this.#latest.result)
        else this.#poll(upstream, target, timeoutMs)
        return { received, cancel: settle }
      }
    }
  }

  /** Resolves matching probes. If none waits, `pollAgain` starts one, which gets the result of an index at once. */
  onPollResult (upstream: string, target: string, result: PollResult, pollAgain: () => void): void {
    const matching = [...this.#pending].filter(waiter => waiter.upstream === upstream && waiter.target === target)
    for (const waiter of matching) waiter.settle(result)
    if (matching.length > 0 || target !== indexTarget) return
    this.#latest = { upstream, target, result }
    pollAgain()
    this.#latest = undefined
  }
}

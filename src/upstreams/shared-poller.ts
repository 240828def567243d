import { type ResponseHeaders } from '../api/position.js'
import { isFreshResult, mayPollBesideHanging } from './polling-policy.js'
import { type UpstreamClient } from './upstream-client.js'
import { type FailureReason, UpstreamFailure } from './upstream-failure.js'
import { probeRequest } from './upstream-request.js'

/** Result of polling an upstream. */
export type PollResult =
  | { readonly status: number, readonly headers: ResponseHeaders, readonly body: Uint8Array }
  | { readonly failure: FailureReason }

/** Receives the result of every poll. */
export type OnPollResult = (upstream: string, target: string, result: PollResult) => void

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
    if (state.latest !== undefined && isFreshResult(nowMs - state.latest.atMs)) {
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
    await Promise.all([...this.#clients.values()].map(async client => {
      await client.close()
    }))
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

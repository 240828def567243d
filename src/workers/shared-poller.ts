import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type UpstreamClient } from '../upstreams/upstream-client.js'
import { probeRequest } from '../upstreams/upstream-request.js'
import { type PollResult } from './messages.js'

/** Receives the result of every poll. */
export type OnPollResult = (upstream: string, target: string, result: PollResult) => void

// A result this recent also serves other workers, and version waits that poll every 100 ms.
const freshMs = 50
// A poll that hangs must not delay the next one, so several may be in flight.
const overlapAfterMs = 900
const maxInFlight = 8

/** Polls of one target at one upstream. */
interface SharedPollState {
  readonly client: UpstreamClient
  readonly target: string
  inFlight: number
  lastSentAtMs: number
  lastAnsweredSentAtMs: number
  latest: { readonly result: PollResult, readonly atMs: number } | undefined
}

/** Polls each upstream once for all workers, and publishes the result to all. */
export class SharedPoller {
  readonly #clients: ReadonlyMap<string, UpstreamClient>
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
    if (state.latest !== undefined && nowMs - state.latest.atMs < freshMs) {
      return this.#onPollResult(name, target, state.latest.result)
    }
    const isAwaited = state.inFlight > 0 && nowMs - state.lastSentAtMs < overlapAfterMs
    if (!isAwaited && state.inFlight < maxInFlight) this.#send(state, timeoutMs).catch(() => {})
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
      state.lastAnsweredSentAtMs = Math.max(state.lastAnsweredSentAtMs, sentAtMs)
      this.#publish(state, { status, headers, body })
    } catch (error) {
      // A failure says nothing once a later poll has succeeded.
      if (sentAtMs >= state.lastAnsweredSentAtMs) {
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
      { client, target, inFlight: 0, lastSentAtMs: -Infinity, lastAnsweredSentAtMs: -Infinity, latest: undefined }
    this.#states.set(key, state)
    return state
  }
}

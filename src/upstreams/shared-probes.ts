import { type ResponseHeaders } from '../api/position.js'
import { indexTarget } from '../api/request-targets.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { withTimeout } from '../with-timeout.js'
import { hangsAfterMs } from './polling-policy.js'
import { type Upstream } from './upstream.js'
import { type FailureReason, UpstreamFailure } from './upstream-failure.js'
import { type UpstreamRequest } from './upstream-request.js'

/** Result of a probe, which serves every process. */
export interface ProbeResult {
  readonly upstream: string
  readonly target: string
  readonly result:
    | { readonly status: number, readonly headers: ResponseHeaders, readonly body: Uint8Array }
    | { readonly failure: FailureReason }
}

/** Leases and messages that the processes of a host share. */
export interface SharedProbesOptions {
  /** Resolves with true if this process may send the probe of this name, until it is released or the time is over. */
  readonly lease: (name: string, ms: number) => Promise<boolean>
  /** Resolves with true if no other process has taken the lease meanwhile. */
  readonly release: (name: string) => Promise<boolean>
  readonly publish: (result: ProbeResult) => void
}

interface Waiter {
  readonly upstream: Upstream
  readonly target: string
  readonly take: (result: ProbeResult['result']) => void
}

/**
 * Probes each upstream once for all processes of a host: the first process that wants a probe sends it, and the others
 * wait.
 */
export class SharedProbes {
  readonly #options: SharedProbesOptions
  // Bounded by the number of polls in flight (law 10: nothing grows without bound).
  readonly #waiters = new Set<Waiter>()
  readonly #newest = new Map<string, object>()
  #received: ProbeResult | undefined

  constructor (options: SharedProbesOptions) {
    this.#options = options
  }

  /** Sends a probe, or waits for the result of the process that does; rejects with UpstreamFailure. */
  async fetch (upstream: Upstream, request: UpstreamRequest, timeoutMs: number): Promise<UpstreamResponse> {
    const { target } = request
    if (this.#received?.upstream === upstream.name && this.#received.target === target) {
      return responseOf(upstream, this.#received.result)
    }
    let take: Waiter['take'] = () => {}
    const taken = new Promise<ProbeResult['result']>(resolve => {
      take = resolve
    })
    const waiter = { upstream, target, take }
    // Listens before it asks for the lease, so that it misses no result.
    this.#waiters.add(waiter)
    try {
      // Probes for itself while the process that gives leases hangs.
      const isSender = await this.#options.lease(leaseOf(upstream, target), hangsAfterMs).catch(() => true)
      if (isSender) return await this.#send(upstream, request, timeoutMs)
      return responseOf(upstream, await withTimeout(timeoutMs, taken) ?? { failure: 'timeout' })
    } finally {
      this.#waiters.delete(waiter)
    }
  }

  /**
   * Takes the result of another process. If no probe waits for the result, `pollAgain` sends one, which gets the result
   * at once.
   */
  onResult (received: ProbeResult, pollAgain: () => void): void {
    const { target } = received
    if (this.#settle(received) || target !== indexTarget) return
    this.#received = received
    pollAgain()
    this.#received = undefined
  }

  async #send (upstream: Upstream, request: UpstreamRequest, timeoutMs: number): Promise<UpstreamResponse> {
    const { target } = request
    const lease = leaseOf(upstream, target)
    const probe = {}
    this.#newest.set(lease, probe)
    const publish = (result: ProbeResult['result']): void => {
      const sent = { upstream: upstream.name, target, result }
      this.#settle(sent)
      this.#options.publish(sent)
    }
    try {
      const response = await upstream.send(request, timeoutMs)
      const { status, headers, body } = response
      publish({ status, headers, body })
      this.#options.release(lease).catch(() => {})
      return response
    } catch (error) {
      const isNewest = this.#newest.get(lease) === probe
      const failure = error instanceof UpstreamFailure ? error.reason : 'unreachable'
      // Publishes a failure only if no later probe was sent.
      this.#options.release(lease).then(isLast => {
        if (isNewest && isLast) publish({ failure })
      }, () => {})
      throw error
    } finally {
      if (this.#newest.get(lease) === probe) this.#newest.delete(lease)
    }
  }

  /** Gives a result to all probes that wait for it; returns false if none does. */
  #settle ({ upstream, target, result }: ProbeResult): boolean {
    const waiters = [...this.#waiters].filter(waiter => waiter.upstream.name === upstream && waiter.target === target)
    for (const { take } of waiters) take(result)
    return waiters.length > 0
  }
}

function leaseOf ({ name }: Upstream, target: string): string {
  return `probe ${name} ${target}`
}

function responseOf (upstream: Upstream, result: ProbeResult['result']): UpstreamResponse {
  if (!('failure' in result)) {
    return upstream.responseOf({ ...result, body: Buffer.from(result.body), rest: undefined }, upstream.release)
  }
  const failure = new UpstreamFailure(upstream.name, result.failure, undefined)
  upstream.recordFailure(failure)
  throw failure
}

import { indexTarget } from '../api/request-targets.js'
import { type ReceivedResponse } from './response-receiver.js'
import { type PollResult } from './shared-poller.js'
import { type Transport } from './upstream-client.js'
import { UpstreamFailure } from './upstream-failure.js'

/** Asks the primary process to poll an upstream. */
export type PollThroughPrimary = (upstream: string, target: string, timeoutMs: number) => void

/** A probe of this worker that waits for its result. */
interface PendingProbe {
  readonly upstream: string
  readonly target: string
  settle(result: PollResult): void
}

/** Sends a worker's probes through the primary process, which polls each upstream once for all workers. */
export class ProbesThroughPrimary {
  readonly #poll: PollThroughPrimary
  // Bounded by the number of polls in flight (law 10: nothing grows without bound).
  readonly #pending = new Set<PendingProbe>()
  #latest: { readonly upstream: string, readonly target: string, readonly result: PollResult } | undefined

  constructor (poll: PollThroughPrimary) {
    this.#poll = poll
  }

  /** Builds a transport that carries the probes of one upstream. */
  transportTo ({ name: upstream, timeoutMs }: { readonly name: string, readonly timeoutMs: number }): Transport {
    return {
      send: ({ target }, _maxBytes, _slot, onDone) => {
        let handlers: { resolve: (received: ReceivedResponse) => void, reject: (error: Error) => void } | undefined
        const received = new Promise<ReceivedResponse>((resolve, reject) => {
          handlers = { resolve, reject }
        })
        const end = (): void => {
          if (this.#pending.delete(pending)) onDone()
        }
        const pending: PendingProbe = {
          upstream,
          target,
          settle: result => {
            end()
            if ('failure' in result) handlers?.reject(new UpstreamFailure(upstream, result.failure, undefined))
            else {
              handlers?.resolve({
                status: result.status,
                headers: result.headers,
                body: Buffer.from(result.body),
                rest: undefined
              })
            }
          }
        }
        this.#pending.add(pending)
        if (this.#latest?.upstream === upstream && this.#latest.target === target) pending.settle(this.#latest.result)
        else this.#poll(upstream, target, timeoutMs)
        return {
          received,
          cancel: reason => {
            end()
            handlers?.reject(reason)
          }
        }
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

import { NodeFailure } from '../upstreams/node-failure.js'
import { type Transport } from '../upstreams/node.js'
import { type Received } from '../upstreams/reception.js'
import { type Polled } from './messages.js'

/** Has the primary process ask a node of itself. */
export type AsksPrimary = (node: string, target: string, timeoutMs: number) => void

/** A question of this worker that waits for its answer. */
interface Waiter {
  readonly node: string
  readonly target: string
  take(polled: Polled): void
}

/** In a worker: where nodes stand, as the primary process finds it out for all. */
export class RemoteProbes {
  readonly #ask: AsksPrimary
  // No more than the polls that may be under way at once.
  readonly #waiters = new Set<Waiter>()
  #atHand: { readonly node: string, readonly target: string, readonly polled: Polled } | undefined

  constructor (ask: AsksPrimary) {
    this.#ask = ask
  }

  /** What carries to one node what it is asked of itself. */
  to ({ name: node, timeoutMs }: { readonly name: string, readonly timeoutMs: number }): Transport {
    return {
      ask: ({ target }, _maxBytes, _turn, onOver) => {
        let settle: { resolve: (received: Received) => void, reject: (error: Error) => void } | undefined
        const received = new Promise<Received>((resolve, reject) => {
          settle = { resolve, reject }
        })
        const end = (): void => {
          if (this.#waiters.delete(waiter)) onOver()
        }
        const waiter: Waiter = {
          node,
          target,
          take: polled => {
            end()
            if ('failure' in polled) settle?.reject(new NodeFailure(node, polled.failure, undefined))
            else {
              settle?.resolve({
                status: polled.status,
                headers: polled.headers,
                body: Buffer.from(polled.body),
                rest: undefined
              })
            }
          }
        }
        this.#waiters.add(waiter)
        if (this.#atHand?.node === node && this.#atHand.target === target) waiter.take(this.#atHand.polled)
        else this.#ask(node, target, timeoutMs)
        return {
          received,
          giveUp: reason => {
            end()
            settle?.reject(reason)
          }
        }
      }
    }
  }

  /** Gives a word to those who wait for it; where nobody does, `wake` has it asked for, and it is at hand then. */
  hear (node: string, target: string, polled: Polled, wake: () => void): void {
    const waiting = [...this.#waiters].filter(waiter => waiter.node === node && waiter.target === target)
    for (const waiter of waiting) waiter.take(polled)
    if (waiting.length > 0) return
    this.#atHand = { node, target, polled }
    wake()
    this.#atHand = undefined
  }
}

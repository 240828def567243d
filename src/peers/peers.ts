import { type PeerMessage, type PeerScope, type SentMessage } from './messages.js'
import { type Records } from './records.js'

/** Carries messages, best effort, and records to the other processes. */
export interface Carrier {
  /** Records that all hosts share; undefined without Redis. */
  readonly redisRecords: Records | undefined
  start(onMessage: (message: SentMessage) => void): void
  publish(message: SentMessage): void
  stop(): void
}

/** Carrier of a process that has no peers. */
export const noCarrier: Carrier = { redisRecords: undefined, start: () => {}, publish: () => {}, stop: () => {} }

/** The other processes that share upstreams with this one, whatever carries the messages. */
export class Peers {
  readonly #carrier: Carrier
  readonly #scope: () => PeerScope

  /** `scope` names what messages of this process are about at present. */
  constructor (carrier: Carrier, scope: () => PeerScope) {
    this.#carrier = carrier
    this.#scope = scope
  }

  publish (message: PeerMessage): void {
    this.#carrier.publish({ ...this.#scope(), ...message })
  }

  start (onMessage: (message: PeerMessage) => void): void {
    this.#carrier.start(message => {
      if (!isForeign(message, this.#scope())) onMessage(message)
    })
  }

  stop (): void {
    this.#carrier.stop()
  }
}

/**
 * Returns true for a message about upstreams of another configuration, in the form of another release, or about another
 * chain (law 7: chains never mix). What a message leaves out, it is not about.
 */
function isForeign ({ kind, configuration, release, space }: SentMessage, own: PeerScope): boolean {
  return (configuration !== undefined && configuration !== own.configuration) ||
    (release !== undefined && release !== own.release) ||
    // Any change of spaces is news to a process in another space.
    (kind !== 'changed' && space !== undefined && space !== own.space)
}

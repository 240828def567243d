import { type PeerMessage, type PeerScope, type SentMessage } from './messages.js'
import { type Records } from './records.js'

/** Carries messages, best effort, and records to the other processes. */
export interface Carrier {
  /** Records that the processes of this host share; undefined for a single process. */
  readonly hostRecords: Records | undefined
  /** Records that all hosts share; undefined without Redis. */
  readonly redisRecords: Records | undefined
  /** False if this process knows that no message of another host arrives. */
  readonly hearsHosts?: boolean
  subscribe(onMessage: (message: SentMessage) => void): void
  publish(message: SentMessage): void
  /** Connects, and tries again until it has succeeded. */
  start(): void
  stop(): void
}

/** Returns true for a carrier that has the records of all hosts. */
export function reachesRedis (carrier: Carrier): carrier is Carrier & { readonly redisRecords: Records } {
  return carrier.redisRecords !== undefined
}

/** Carrier of a process that has no peers. */
export const noCarrier: Carrier = {
  hostRecords: undefined,
  redisRecords: undefined,
  subscribe: () => {},
  publish: () => {},
  start: () => {},
  stop: () => {}
}

/** The other processes that share upstreams with this one, whatever carries the messages. */
export class Peers {
  readonly #carrier: Carrier
  readonly #scope: () => PeerScope

  /** `scope` names the configuration, release and space that messages of this process are about at present. */
  constructor (carrier: Carrier, scope: () => PeerScope) {
    this.#carrier = carrier
    this.#scope = scope
  }

  publish (message: PeerMessage): void {
    this.#carrier.publish({ ...this.#scope(), ...message })
  }

  subscribe (onMessage: (message: PeerMessage) => void): void {
    this.#carrier.subscribe(message => {
      if (!isForeign(message, this.#scope())) onMessage(message)
    })
  }

  start (): void {
    this.#carrier.start()
  }

  stop (): void {
    this.#carrier.stop()
  }
}

/**
 * Returns true for a message about upstreams of another configuration, another release, or another chain (law 7: chains
 * never mix). A message without a subject concerns every process.
 */
function isForeign ({ kind, configuration, release, space }: SentMessage, own: PeerScope): boolean {
  return (configuration !== undefined && configuration !== own.configuration) ||
    (release !== undefined && release !== own.release) ||
    // Messages about changed spaces and polls concern a process in another space too.
    (kind !== 'changed' && kind !== 'polled' && space !== undefined && space !== own.space)
}

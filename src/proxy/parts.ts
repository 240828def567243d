import { type Memory } from '../cache/memory.js'
import { type GatheringFlight, type SingleFlight } from '../cache/single-flight.js'
import { type Tracker } from '../ledger/tracker.js'
import { type Question } from '../nodes/node.js'
import { type Answer } from '../reads/answer.js'
import { type EndpointName } from '../reads/endpoints.js'
import { type NotKeptReason } from '../reads/lifetime.js'
import { type Fetched } from './outcomes.js'
import { type Renewals } from './renewals.js'

/** Whoever answers questions about the chain: one node, or all of them. */
export interface Asker {
  ask (question: Question): Promise<Answer>
  readonly release: string | undefined
  poll (): Promise<void>
}

/** What the proxy tells of its work, for the metrics. */
export interface ProxyTally {
  notKept (endpoint: EndpointName, reason: NotKeptReason): void
  staleLatest (): void
  pruned (endpoint: EndpointName, by: 'cache' | 'upstream', distanceVersions: bigint | undefined): void
}

/** Everything that a read passes through, built in one place and handed down. */
export interface Parts {
  readonly tracker: Tracker
  readonly memory: Memory
  readonly flights: SingleFlight<Fetched & { readonly text: string }>
  readonly latestFlights: GatheringFlight<Fetched>
  readonly nodes: Asker
  readonly renewals: Renewals
  readonly tally: ProxyTally
  readonly settings: {
    readonly maxEntryBytes: number
    readonly ignoreCacheControl: boolean
    readonly promoteLatest: boolean
    /** Whether the specification's header names, the node's own, or both are sent. */
    readonly emit: readonly ('node' | 'upstream')[]
  }
}

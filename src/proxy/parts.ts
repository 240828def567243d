import { type Compressor } from '../cache/compressor.js'
import { type Entry } from '../cache/entry.js'
import { type Memory } from '../cache/memory.js'
import { type EventRange } from '../cache/page-index.js'
import { type PageLimit } from './events/page-limit.js'
import { type Found, type ToShare } from '../cache/shared-store.js'
import { type GatheringFlight, type SingleFlight } from '../cache/single-flight.js'
import { type StreamEnds } from './events/stream-ends.js'
import { type StreamNames } from './events/stream-names.js'
import { type Arrival, type Arrivals } from '../chain/arrivals.js'
import { type Asked } from '../chain/asked.js'
import { type Tracker } from '../chain/tracker.js'
import { type Look } from '../upstreams/attempts.js'
import { type Serves } from '../chain/chain-mismatch.js'
import { type Question } from '../upstreams/question.js'
import { type Route } from '../upstreams/route.js'
import { type Spare, type Word } from '../upstreams/spare.js'
import { type Answer } from '../api/answer.js'
import { type EndpointName } from '../api/endpoints.js'
import { type NotKeptReason } from '../api/lifetime.js'
import { type ReadKeys } from '../api/read.js'
import { type Auditor, type AuditResult } from './auditor.js'
import { type Forgetting } from './forgetting.js'
import { type Landing, type Outcome } from './outcomes.js'
import { type Pruning } from '../api/pruning.js'
import { type Renewals } from './renewals.js'

/** Whoever answers questions about the chain: the nodes of the configuration. */
export interface Asker {
  ask(question: Question, route: Route, look: Look): Promise<Answer>
  pass(question: Question, route: Route, look: Look, signal: AbortSignal): Promise<Answer>
  /** Asks what nobody waits for; undefined where no node can be asked for it, or tell. */
  askSpare(question: Question, wanted: Spare, look: Look): Promise<Word | undefined>
  /** Whether a version is gone from all of them, by their last known windows. */
  lacks(version: bigint): boolean
  /** Whether asking once more may find one that has got as far as a version. */
  mayHaveReached(version: bigint): boolean
  /** Whether no live node runs a release any more. */
  isGone(release: string): boolean
  /** Each with its name and the chain that it serves, where that is another one. */
  readonly members: readonly Serves[]
}

/** The tier behind memory that replicas share, as reads see it. */
export interface Shared {
  /** What replicas have of a read; undefined also where that cannot be told in time. */
  find(keys: ReadKeys, version: bigint | undefined): Promise<Found | undefined>
  /** The pages of a stream in which replicas have a run of its events; none where that cannot be told in time. */
  findPages(stream: string, wanted: EventRange, mayJoin: boolean): Promise<Found[]>
  /** Shares an entry; no answer waits for it. */
  keep(item: ToShare): void
}

/** What the proxy tells of its work, for the metrics. */
export interface ProxyTally {
  notKept(endpoint: EndpointName, reason: NotKeptReason): void
  staleLatest(): void
  waited(how: Arrival): void
  audited(result: AuditResult): void
  pruned(
    endpoint: EndpointName | 'other',
    by: 'cache' | 'local' | 'upstream',
    distanceVersions: bigint | undefined
  ): void
}

/** What an operator chose of how reads are answered. */
export interface ProxySettings {
  /** Everything is forwarded, and what would have been a hit is counted. */
  readonly isObserving: boolean
  readonly promoteLatest: boolean
  /** Of what is answered from the cache, how much is read again and compared. */
  readonly auditShare: number
  /** How old an answer of the moment may be. */
  readonly stateMs: number
  readonly infoMs: number
  readonly indexMs: number
  readonly gasMs: number
  /** How long a read may wait for a version that is just above the head, and how many blocks above it that is. */
  readonly waitMs: number
  readonly waitBlocks: number
  readonly eventsTtlMs: number
  /** How many events a node gives that is asked for no number of them. */
  readonly eventsDefault: number
  /** Whether kept history is served that the nodes have pruned. */
  readonly servePruned: boolean
  /** Whether what the nodes have pruned is said to be gone without asking them. */
  readonly answerLocally: boolean
  /** Whether a listing that began without a version goes on at the version of its first page. */
  readonly pinsPages: boolean
  /** Header names to send: varve's own, the upstream's, or both. */
  readonly emit: readonly ('node' | 'upstream')[]
}

/** Everything that a read passes through, built in one place and handed down. */
export interface Parts {
  readonly now: () => number
  readonly tracker: Tracker
  readonly arrivals: Pick<Arrivals, 'reach' | 'close'>
  /** Told of the versions that clients ask for. */
  readonly asked: Asked
  readonly memory: Memory
  readonly compressor: Compressor
  /** What replicas share; undefined where nothing is shared. */
  readonly shared: Shared | undefined
  readonly forgetting: Forgetting
  readonly auditor: Auditor
  readonly streamEnds: StreamEnds
  readonly streamNames: StreamNames
  readonly pageLimit: PageLimit
  readonly flights: SingleFlight<Landing>
  /** Looks into what replicas share that are no fetch yet. */
  readonly looks: SingleFlight<Entry | undefined>
  readonly latestFlights: GatheringFlight<Outcome>
  readonly nodes: Asker
  /** Whose read it is, where it is one's: nodes that have much to do let clients take turns. */
  readonly client?: string | undefined
  /**
   * Whether a node may be asked for that client now is asked of this, where it may not ask for all that it likes;
   * throws the refusal.
   */
  readonly admit?: (() => Promise<void>) | undefined
  /** Refuses what would be asked of a node while there is no time for more than what is kept. */
  readonly requireLeisure?: (() => void) | undefined
  /** Finds out which chain it is, from a node, or from what is remembered where none answers. */
  readonly settle: () => Promise<void>
  readonly pruning: Pruning
  readonly renewals: Renewals
  readonly tally: ProxyTally
  readonly settings: ProxySettings
}

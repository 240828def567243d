import { type Compressor } from '../cache/compressor.js'
import { type Entry } from '../cache/entry.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type StreamEvents } from '../cache/page-index.js'
import { type FoundEntry, type RedisWrite } from '../cache/redis-tier.js'
import { type FreshCoalescer, type Coalescer } from '../cache/coalescer.js'
import { type StreamEnds } from './events/stream-ends.js'
import { type StreamNames } from './events/stream-names.js'
import { type VersionWaitResult, type VersionWaits } from '../chain/version-waits.js'
import { type LowestRequestedVersion } from '../chain/lowest-requested-version.js'
import { type Tracker } from '../chain/tracker.js'
import { type InspectResponse } from '../upstreams/attempts.js'
import { type ReportedChain } from '../chain/chain-mismatch.js'
import { type UpstreamRequest } from '../upstreams/upstream-request.js'
import { type UpstreamRequirements } from '../upstreams/ranking.js'
import { type BackgroundRequirements, type BackgroundResponse } from '../upstreams/background-candidates.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type EndpointName } from '../api/endpoints.js'
import { type NotStoredReason } from '../api/lifetime.js'
import { type ReadKeys } from '../api/read.js'
import { type Auditor, type AuditResult } from './auditor.js'
import { type Invalidator } from './invalidator.js'
import { type HistoryResult, type Outcome } from './outcomes.js'
import { type PrunedErrors } from '../api/pruned-errors.js'
import { type FailedRefreshes } from './failed-refreshes.js'

/** Whoever answers questions about the chain: the nodes of the configuration. */
export interface UpstreamFetcher {
  fetch(
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse
  ): Promise<UpstreamResponse>
  forward(
    request: UpstreamRequest,
    requirements: UpstreamRequirements,
    inspect: InspectResponse,
    signal: AbortSignal
  ): Promise<UpstreamResponse>
  /** Asks what nobody waits for; undefined where no node can be asked for it, or tell. */
  fetchInBackground(
    request: UpstreamRequest,
    requirements: BackgroundRequirements,
    inspect: InspectResponse
  ): Promise<BackgroundResponse | undefined>
  /** Whether a version is gone from all of them, by their last known windows. */
  isPrunedEverywhere(version: bigint): boolean
  /** Whether asking once more may find one that has got as far as a version. */
  mayHaveReached(version: bigint): boolean
  /** Whether no live node runs a release any more. */
  isRetiredRelease(release: string): boolean
  /** Each with its name and the chain that it serves, where that is another one. */
  readonly upstreams: readonly ReportedChain[]
}

/** The tier behind memory that replicas share, as reads see it. */
export interface CacheTier {
  /** What replicas have of a read; undefined also where that cannot be told in time. */
  get(keys: ReadKeys, version: bigint | undefined): Promise<FoundEntry | undefined>
  /** The page of a stream with these events that replicas have; undefined also where that cannot be told in time. */
  findPage(page: StreamEvents): Promise<FoundEntry | undefined>
  /** Shares an entry; no answer waits for it. */
  put(item: RedisWrite): void
}

/** What the proxy tells of its work, for the metrics. */
export interface ProxyTally {
  notStored(endpoint: EndpointName, reason: NotStoredReason): void
  staleLatest(): void
  waited(result: VersionWaitResult): void
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
export interface ProxyContext {
  readonly now: () => number
  readonly tracker: Tracker
  readonly versionWaits: Pick<VersionWaits, 'waitFor' | 'close'>
  /** Told of the versions that clients ask for. */
  readonly lowestRequested: LowestRequestedVersion
  readonly memory: MemoryTier
  readonly compressor: Compressor
  /** What replicas share; undefined where nothing is shared. */
  readonly redisTier: CacheTier | undefined
  readonly invalidator: Invalidator
  readonly auditor: Auditor
  readonly streamEnds: StreamEnds
  readonly streamNames: StreamNames
  readonly historyCoalescer: Coalescer<HistoryResult>
  /** Looks into what replicas share that are no fetch yet. */
  readonly redisCoalescer: Coalescer<Entry | undefined>
  readonly latestCoalescer: FreshCoalescer<Outcome>
  readonly upstreamPool: UpstreamFetcher
  /** Whose read it is, where it is one's: nodes that have much to do let clients take turns. */
  readonly clientId?: string | undefined
  /**
   * Whether a node may be asked for that client now is asked of this, where it may not ask for all that it likes;
   * throws the refusal.
   */
  readonly admit?: (() => Promise<void>) | undefined
  /** Refuses what would be asked of a node while there is no time for more than what is kept. */
  readonly rejectIfOverloaded?: (() => void) | undefined
  /** Finds out which chain it is, from a node, or from what is remembered where none answers. */
  readonly resolveChain: () => Promise<void>
  readonly prunedErrors: PrunedErrors
  readonly failedRefreshes: FailedRefreshes
  readonly tally: ProxyTally
  readonly settings: ProxySettings
}

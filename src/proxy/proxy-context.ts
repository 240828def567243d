import { Compressor } from '../cache/compressor.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type MissCause } from '../cache/removals.js'
import { type LowerStore } from '../cache/tier.js'
import { Coalescer, type FetchLease, FreshCoalescer } from '../cache/coalescer.js'
import { type VersionWaitResult, type VersionWaits } from '../chain/version-waits.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type LowestRecentRequest } from './history-forecast.js'
import { type Tracker } from '../chain/tracker.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { type EndpointName } from '../api/endpoints.js'
import { type NotStoredReason } from '../api/store-verdict.js'
import { type AuditSampler, type AuditResult, type ObservedResult } from './audit-sampler.js'
import { LastKnownEvents } from './last-known-events.js'
import { type LocalInvalidator } from './local-invalidator.js'
import { type CachedEntry, isShareable, type Loaded } from './outcomes.js'
import { PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { type Config } from '../config/schema.js'
import { type Follower, type TransactionWaitResult } from '../follow/follower.js'

/** Counters of the proxy, for metrics. */
export interface ProxyMetrics {
  notStored(endpoint: EndpointName, reason: NotStoredReason): void
  missed(endpoint: EndpointName, cause: MissCause): void
  staleLatest(): void
  waited(result: VersionWaitResult): void
  awaitedTransaction(result: TransactionWaitResult): void
  /** Counts a request rejected because the budget for bytes is used up. */
  overBudget(): void
  audited(result: AuditResult): void
  observed(endpoint: EndpointName, result: ObservedResult): void
  pruned(
    endpoint: EndpointName | 'other',
    by: 'cache' | 'local' | 'upstream',
    distanceVersions: bigint | undefined
  ): void
}

/** Makes what the steps of a read remember between reads. */
export function readState (memory: MemoryTier) {
  return {
    compressor: new Compressor(memory),
    lastKnownEvents: new LastKnownEvents(),
    historyCoalescer: new Coalescer<Loaded>(isShareable),
    /** Coalesces look-ups in lower tiers. */
    lowerTierCoalescer: new Coalescer<CachedEntry | undefined>(() => true),
    latestCoalescer: new FreshCoalescer<Loaded>(isShareable),
    prunedErrorBuilder: new PrunedErrorBuilder(),
    /** Times at which refreshes failed, by body: a new compressed form replaces an entry, but not its body. */
    failedRefreshes: new WeakMap<Buffer, number>()
  }
}

/** Parts that serve reads, built in one place. */
export interface ProxyContext extends ReturnType<typeof readState> {
  readonly now: () => number
  readonly tracker: Tracker
  readonly versionWaits: Pick<VersionWaits, 'waitFor' | 'close'>
  /** Records the versions that clients request. */
  readonly lowestRequested: LowestRecentRequest
  readonly memory: MemoryTier
  /** Tiers below memory, in the order of look-ups. */
  readonly lowerTiers: readonly LowerStore[]
  readonly invalidator: LocalInvalidator
  readonly auditSampler: AuditSampler
  /** Coalesces fetches of all hosts; undefined without a tier that they share. */
  readonly fetchLeases: { take(key: string): Promise<FetchLease | undefined> } | undefined
  readonly upstreamPool: UpstreamPool
  /** Head of the ledger that latest reads are served at; undefined where nothing follows the ledger. */
  readonly follower: Follower | undefined
  readonly releases: Pick<UpstreamSoftwareReleases, 'isRetiredRelease'>
  /** Budget for bytes outside the cache. */
  readonly inFlight: InFlightBytes
  /** Throws a 503 for a read that needs an upstream while the process is overloaded. */
  readonly rejectIfOverloaded?: (() => void) | undefined
  /** Resolves the chain and position from an upstream, or from Redis if no upstream responds in time. */
  readonly resolveChain: () => Promise<void>
  readonly metrics: ProxyMetrics
  readonly settings: Config
}

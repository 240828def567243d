import { type TokenBuckets } from '../clients/token-buckets.js'
import { ChainVerifier, referenceOf } from '../chain/chain-verifier.js'
import { Spaces } from '../chain/spaces.js'
import { Tracker, ChainEvents } from '../chain/tracker.js'
import { type LeasePlace } from '../peers/fetch-leases.js'
import { type Carrier, Peers } from '../peers/peers.js'
import { SharedHead } from '../peers/shared-head.js'
import { RecordedSpaces } from '../peers/recorded-spaces.js'
import { HeadPollers } from '../upstreams/head-pollers.js'
import { UpstreamPool } from '../upstreams/upstream-pool.js'
import { UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type Config } from '../config/schema.js'
import { type EntryLog } from '../peers/ipc-carrier.js'
import { type Records } from '../peers/records.js'
import { versionOfProgram } from './io.js'

/** Host as one of its processes knows it: the other processes there, and the parts that they share. */
export interface Host {
  /** Name under which other hosts see the processes of this host and configuration as one peer. */
  readonly configuration: string
  readonly carrier: Carrier
  /** Counts what clients consume in all processes. */
  readonly buckets: TokenBuckets
  /**
   * Counts what all processes send to upstreams; a call rejects while that cannot be counted. Undefined for a process
   * that runs alone.
   */
  readonly budgets: TokenBuckets | undefined
  /** Names of upstreams that are out of service already. */
  readonly cordoned: readonly string[]
  /** Log on the disk or in shared memory, if another process keeps it. */
  readonly entryLog: EntryLog | undefined
  /** Returns the place of leases by which the processes of this host share fetches; undefined for a single process. */
  readonly leasesOf: (peers: Peers) => LeasePlace | undefined
  /**
   * Takes a lease: for `ms`, this process alone does what the name says. Resolves with true if the lease was free;
   * rejects if that is unknown.
   */
  readonly lease: (name: string, ms: number) => Promise<boolean>
  /** Releases a lease; resolves with true if no other process has taken it meanwhile. */
  readonly release: (name: string) => Promise<boolean>
  /** Purges in the other processes an entry that this process has found to be wrong. */
  readonly purgeOthers: (body: Buffer) => void
}

/** Parts that find out the chain, from upstreams, peers and shared records. */
export type Chain = ReturnType<typeof buildChain>

/** Builds the parts of the chain; the pool has no upstream yet. */
export function buildChain (
  { chainId, head: { fleet: isHeadShared } }: Config,
  host: Host,
  redis: (Carrier & { readonly redisRecords: Records }) | undefined,
  entryLog: EntryLog | undefined
) {
  const now = (): number => performance.now()
  const events = new ChainEvents()
  const { hostRecords } = host.carrier
  const isShared = redis !== undefined || entryLog !== undefined || hostRecords !== undefined
  const tracker = new Tracker(chainId ?? undefined, now, events, isShared)
  const headPollers = new HeadPollers(() => tracker.position !== undefined, now)
  const upstreamPool = new UpstreamPool({
    onOldest: oldest => tracker.setOldest(oldest),
    onAllQuarantined: async () => await headPollers.pollQuarantined()
  })
  const release = versionOfProgram()
  const peers = new Peers(
    redis ?? host.carrier,
    () => ({ configuration: host.configuration, release, space: tracker.space?.name })
  )
  const sharedRecords = redis?.redisRecords ?? hostRecords
  const sharedHead = !isHeadShared || sharedRecords === undefined ? undefined : new SharedHead({
    tracker,
    records: sharedRecords,
    publish: message => peers.publish(message),
    // Redis sends a message to its sender too.
    isEchoed: redis !== undefined,
    now
  })
  if (sharedHead !== undefined) tracker.join(sharedHead)
  const ofRedis = redis &&
    new RecordedSpaces(redis.redisRecords, () =>
      upstreamPool.upstreams.map(upstream => ({
        url: upstream.settings.url,
        isOnChain: () => upstream.window !== undefined
      })))
  const ofHost = hostRecords && new RecordedSpaces(hostRecords, () => [])
  const ofLog = entryLog && new RecordedSpaces(entryLog.records)
  const places = [ofRedis, ofHost, ofLog].filter(place => place !== undefined)
  const spaces = new Spaces({ tracker, places, reference: referenceOf(upstreamPool), now, events })
  return {
    now,
    events,
    tracker,
    headPollers,
    upstreamPool,
    releases: new UpstreamSoftwareReleases(now, name => upstreamPool.isUp(name)),
    peers,
    /** Undefined if each process serves the heads that it knows. */
    sharedHead,
    ofRedis,
    ofLog,
    places,
    spaces,
    chainVerifier: new ChainVerifier({
      pool: upstreamPool,
      spaces,
      tracker,
      waitForEarlier: async client => await headPollers.waitForEarlier(client),
      now
    })
  }
}

import { type ResponsePosition } from '../api/position.js'
import { type LogKeeper, type LogMember, type LogSettings } from '../cache/disk-keeper.js'
import { type FoundEntry } from '../cache/tier.js'
import { type ClientRateLimit } from '../clients/token-buckets.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { type FollowEvent, type TailDemand } from '../follow/follower.js'
import { type ProbeResult } from '../upstreams/shared-probes.js'
import { type CallMessage } from './ipc-calls.js'

/** Message to the other peers. */
export type PeerMessage =
  /** Announces that shared records changed: by a chain reset, out of a space, or with the link to Redis. */
  | { readonly kind: 'changed', readonly resetFrom?: string | undefined, readonly isRedisUp?: boolean }
  /** Brings a position to which a response moved the sender. */
  | { readonly kind: 'head', readonly stamped: ResponsePosition }
  /** Announces the heads of a process that serves heads together with other processes. */
  | SharedHeadMessage
  /** Says that a fetch for others has ended, to the processes that wait for it. */
  | FetchedMessage
  /** Brings an event of the process that reads the tail. */
  | { readonly kind: 'tail', readonly event: FollowEvent }
  /** Announces that the reader of the tail for all hosts has read more. */
  | { readonly kind: 'digests', readonly source: string }
  /** Requests the tail from its reader. */
  | { readonly kind: 'demand', readonly demand: TailDemand }
  /** Brings the result of a poll, which serves all workers. */
  | { readonly kind: 'polled' } & ProbeResult

/** Heads of one process that serves heads together with others, and the names of the processes that it waits for. */
export interface SharedHeadMessage {
  readonly kind: 'heads'
  /** Name of the process; a process that lapses comes back under another name. */
  readonly id: string
  /** Number that rises with each message of this process. */
  readonly nth: number
  /** Time of the process's last beat, on its own clock. */
  readonly beatAtMs: number
  /** Newest head that the process has. */
  readonly stamped: ResponsePosition | undefined
  /** Version below which the process serves no head; undefined while it serves nothing. */
  readonly promised: bigint | undefined
  readonly members: readonly string[]
  readonly hasLeft: boolean
}

/** End of a fetch. A message to workers, which share no tier, also brings the entry and the token of the lease. */
export interface FetchedMessage {
  readonly kind: 'fetched'
  readonly lease: string
  /** Undefined if a purge has made the fetch useless. */
  readonly isStored: boolean | undefined
  readonly token?: string | undefined
  readonly found?: FoundEntry | undefined
}

/** Subject of a message: a peer drops messages about another configuration, release or space. */
export interface PeerScope {
  readonly configuration?: string | undefined
  readonly release?: string | undefined
  readonly space?: string | undefined
}

/** Message with its subject. */
export type SentMessage = PeerMessage & PeerScope

/** Deadlines of a shutdown; together they end it within nine seconds after the drain. */
export interface ShutdownDeadlines {
  /** Time in which responses carry `connection: close`, before the listener closes. */
  readonly drainMs?: number
  /** Time for requests in flight, before they fail with 503. */
  readonly graceMs?: number
  /** Time for the 503s of these requests to reach their clients. */
  readonly flushMs?: number
}

/** First message to a worker. */
export interface StartMessage {
  readonly kind: 'start'
  /** Names the workers that have this configuration. */
  readonly configuration: string
  readonly config: Config
  readonly sandbox: NamedUpstream | undefined
  readonly cordoned: readonly string[]
  /** Entry log of all workers. */
  readonly entryLog: LogSettings | undefined
}

/** Messages from the primary process to a worker. */
export type ToWorker =
  | StartMessage
  | { readonly kind: 'stop', readonly deadlines: ShutdownDeadlines | undefined }
  | CallMessage
  | SentMessage

/** Messages from a worker to the primary process. */
export type ToPrimary =
  | { readonly kind: 'state', readonly state: 'up' | 'alive' | 'ready' }
  | { readonly kind: 'state', readonly state: 'listening', readonly url: string }
  | { readonly kind: 'state', readonly state: 'failed', readonly message: string }
  | CallMessage
  | SentMessage

/** Methods of the primary process that a worker calls. */
export interface PrimaryMethods extends Omit<LogKeeper, 'isShared'> {
  take(clientId: string, allowance: ClientRateLimit, count?: number): number
  level(clientId: string, allowance: ClientRateLimit, atMost?: number): number
  refund(clientId: string, allowance: ClientRateLimit): void
  readRecord(place: RecordPlace, name: string): Promise<string | undefined>
  replaceRecord(place: RecordPlace, name: string, before: string | undefined, after: string): Promise<boolean>
  /**
   * Returns true if the worker may do what the lease names, for all workers, until it ends the lease or the time is
   * over.
   */
  lease(name: string, ms: number): boolean
  /** Ends a lease; returns true if no other worker has taken it meanwhile. */
  release(name: string): boolean
  /** Takes the lease of a fetch, or has the worker notified of its end; returns 0 if it was taken, else its time. */
  takeLease(id: string, token: string, ms: number): number
  renewLease(id: string, token: string, ms: number): void
  /** Ends the lease of a fetch; returns true if others wait for its entry. */
  endLease(id: string, token: string): boolean
  /** Purges in the other workers what this one has found to be wrong. */
  purge(body: Uint8Array): Promise<void>
  /** Takes the last counts of a worker that stops. */
  report(metrics: unknown, recent: unknown): void
}

/** Place of records: the processes of this host, their log, or all hosts. */
export type RecordPlace = 'host' | 'log' | 'redis'

/** Methods of a worker that the primary process calls for an operator. */
export interface WorkerMethods extends LogMember {
  metrics(): Promise<unknown>
  status(): Promise<unknown>
  /** Purges in all tiers; the same purge has one id in every process. */
  purge(body: Uint8Array, id: string): Promise<unknown>
  /** Purges in the memory of this process only, after another one has purged the other tiers, or has begun a space. */
  purgeLocally(body: Uint8Array, begun: string | undefined): Promise<boolean>
  setCordoned(upstream: string, isCordoned: boolean): Promise<boolean>
  replaceUpstreams(config: Config): Promise<void>
  replaceClients(config: Config): Promise<void>
}

import { type ClientRateLimit } from '../clients/token-buckets.js'
import { type SpaceChange, type StoredSpace } from '../peers/folder-spaces.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { type TailDemand, type FollowEvent } from '../follow/follower.js'
import { type ResponsePosition } from '../api/position.js'
import { type PollResult } from '../upstreams/shared-poller.js'
import { type ErrorResponse } from '../api/error-response.js'

/** Deadlines of a shutdown, which ends within ten seconds in all. */
export interface ShutdownDeadlines {
  /** Time in which responses carry `connection: close`, before the listener closes. */
  readonly drainMs?: number
  /** Time for requests in flight, before they fail with 503. */
  readonly graceMs?: number
  /** Time for those error responses to reach their clients. */
  readonly flushMs?: number
}

/**
 * Number of chain resets so far; processes whose numbers differ may be on different chains (law 7: chains never mix).
 */
export type ChainResetCount = number

/** An operator's request to one worker. */
export type WorkerQuery =
  | { readonly kind: 'metrics' | 'status' }
  | { readonly kind: 'purge' | 'purge_locally', readonly body: Uint8Array }
  | { readonly kind: 'cordon', readonly upstream: string, readonly isCordoned: boolean }

/** Result of a query: its value, or an error. */
export type WorkerQueryResult = { readonly value: unknown } | {
  readonly errorResponse: Pick<ErrorResponse, 'status' | 'code' | 'message' | 'rawHeaders'>
} | { readonly error: string }

/** Message of the worker that reads the tail to the others. */
export interface FollowMessage {
  readonly kind: 'follow'
  readonly resetCount: ChainResetCount
  readonly event: FollowEvent
}

/** Size of the files of the disk tier, which the primary process counts for all workers. */
export interface FolderSize {
  readonly bytes: number
  readonly entries: number
  readonly maxBytes: number
  /** False until the files are counted: nothing is written before. */
  readonly isCounted: boolean
}

/** Folder of the disk tier as a worker finds it. */
export interface FolderState {
  readonly path: string
  readonly spaces: readonly StoredSpace[]
  readonly size: FolderSize
}

/** Messages from the primary process to a worker. */
export type ToWorker =
  | {
    readonly kind: 'start',
    readonly config: Config,
    readonly sandbox: NamedUpstream | undefined,
    readonly resetCount: ChainResetCount,
    readonly cordoned: readonly string[],
    readonly folder: FolderState | undefined
  }
  | { readonly kind: 'upstreams', readonly config: Config }
  | { readonly kind: 'poll_result', readonly upstream: string, readonly target: string, readonly result: PollResult }
  | { readonly kind: 'head', readonly resetCount: ChainResetCount, readonly stamped: ResponsePosition }
  | { readonly kind: 'chain_reset', readonly resetCount: ChainResetCount }
  | FollowMessage
  | { readonly kind: 'follow_lead' }
  | { readonly kind: 'follow_demand', readonly demand: TailDemand }
  | { readonly kind: 'take_result', readonly id: number, readonly waitMs: number }
  | { readonly kind: 'disk_spaces', readonly spaces: readonly StoredSpace[] }
  | { readonly kind: 'disk_size', readonly size: FolderSize }
  | { readonly kind: 'disk_changed', readonly id: number, readonly error?: string }
  | { readonly kind: 'query', readonly id: number, readonly query: WorkerQuery }
  | { readonly kind: 'stop', readonly deadlines: ShutdownDeadlines | undefined }

/** Messages from a worker to the primary process. */
export type ToPrimary =
  | { readonly kind: 'up' }
  | { readonly kind: 'listening', readonly url: string }
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed', readonly message: string }
  | { readonly kind: 'alive' }
  | { readonly kind: 'poll', readonly upstream: string, readonly target: string, readonly timeoutMs: number }
  | { readonly kind: 'head', readonly resetCount: ChainResetCount, readonly stamped: ResponsePosition }
  | { readonly kind: 'chain_reset', readonly resetCount: ChainResetCount }
  | FollowMessage
  | { readonly kind: 'follow_demand', readonly demand: TailDemand }
  | { readonly kind: 'take', readonly id: number, readonly clientId: string, readonly allowance: ClientRateLimit }
  | { readonly kind: 'refund', readonly clientId: string, readonly allowance: ClientRateLimit }
  | { readonly kind: 'disk_change', readonly id: number, readonly change: SpaceChange }
  | { readonly kind: 'disk_used', readonly bytes: number, readonly entries: number }
  | { readonly kind: 'invalidated', readonly purge: Uint8Array }
  | { readonly kind: 'final_report', readonly metrics: unknown, readonly recent: unknown }
  | { readonly kind: 'query_result', readonly id: number, readonly result: WorkerQueryResult }

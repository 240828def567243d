import { type TierName, type TierStatus } from '../cache/tier.js'
import { type Tracker } from '../chain/tracker.js'
import { type FollowState } from '../follow/follower.js'
import { type RecentSnapshot } from '../metrics/recent-counts.js'
import { type InFlightBytes } from '../upstreams/in-flight-bytes.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type DrainFlag } from './drain-flag.js'

/** Release and machine of this varve. */
export interface VarveInfo {
  readonly version: string
  /** Address of the documentation. */
  readonly docs: string
  /** Name of the machine, which distinguishes replicas. */
  readonly host: string
  /** True if the upstream is the embedded sandbox, whose chain is made up. */
  readonly isSandbox: boolean
}

/** Following of the ledger, as /status.json shows it. */
export interface FollowStatus {
  readonly mode: 'off' | 'observe' | 'on'
  readonly state: FollowState
  readonly reason?: string
  /** Followed head, as a text. */
  readonly version: string | undefined
  readonly lagSeconds: number | undefined
}

/** Sources of readiness and status. */
export interface StatusSources {
  readonly tracker: Tracker
  readonly upstreamPool: { readonly upstreams: readonly Upstream[] }
  readonly drain: DrainFlag
  readonly clients: { readonly isFull: boolean }
  readonly loadShedder: { readonly isShedding: boolean }
  readonly inFlight: Pick<InFlightBytes, 'bytes' | 'maxBytes' | 'isExhausted'>
  readonly info: () => VarveInfo
  /** Forecast of when history that clients request is pruned; absent where nothing samples it. */
  readonly history?: { readonly soonForSeconds: number | undefined }
  /** Undefined where nothing follows. */
  readonly follow: () => FollowStatus | undefined
  readonly recent: { readonly snapshot: RecentSnapshot }
  /** Tiers in use. */
  readonly tiers: ReadonlyArray<{ readonly name: TierName, readonly status: TierStatus }>
  /** Reasons why lower tiers are degraded. */
  readonly degradedTiers: () => readonly string[]
  /** Reasons why the certificate needs attention. */
  readonly degradedCertificate: () => readonly string[]
}

import { type Entry } from '../cache/entry.js'
import { tierNames, type TierName } from '../cache/tier.js'
import { type Position } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type NotStoredReason } from '../api/store-verdict.js'
import { type ErrorResponseStatus } from '../api/error-response.js'

/** Outcomes of responses that varve makes itself: a granted preflight and each kind of error response. */
export const ownOutcomeNames = ['preflight', 'gone', 'rejected', 'limited', 'unavailable'] as const

/** Name of an outcome that varve decides by itself. */
export type OwnOutcomeName = typeof ownOutcomeNames[number]

/** Outcome names of hits by tier, printed once. */
export const hitNames = Object.fromEntries(tierNames.map(tier => [tier, `hit_${tier}`])) as {
  readonly [Tier in TierName]: `hit_${Tier}`
}

/** Outcome name of a latest read that was served at the followed head. */
export const followedHitName = 'hit_followed'

/** Every outcome of a request: the words that header, access log and metric label share. */
export const outcomeNames = [
  ...tierNames.map(tier => hitNames[tier]),
  followedHitName,
  'miss',
  'collapsed',
  'forwarded',
  ...ownOutcomeNames
] as const

/** Name of an outcome. */
export type OutcomeName = typeof outcomeNames[number]

/** True if a read with this outcome needed no upstream request of its own. */
export function isSaved (outcome: string): boolean {
  return outcome.startsWith('hit_') || outcome === 'collapsed'
}

/** Upstream response of a fetch, with the request text that it may quote, and its entry or why none was stored. */
export type FetchResult =
  & { readonly response: UpstreamResponse, readonly textKey: string }
  & (
    | { readonly entry: Entry, readonly notStored: undefined }
    | { readonly entry: undefined, readonly notStored: NotStoredReason | undefined }
  )

/** Kinds of hits: history, pruned history, a latest response at the followed head, or a micro-cached one. */
export type HitKind = 'history' | 'pruned' | 'followed' | 'moving'

/** Entry found in a tier, and how it may be served. */
export interface CachedEntry {
  readonly tier: TierName
  readonly entry: Entry
  readonly kind: HitKind
  /** Versions from a pruned entry to the oldest version of the upstreams. */
  readonly prunedVersions: bigint | undefined
  /** True if no live upstream runs the release that rendered the entry, and a refresh can succeed. */
  readonly isRetired: boolean
  /** Position of the followed head that a latest read is served at; undefined for other reads. */
  readonly followedAt?: Position | undefined
  /** True if another host has just fetched the entry, and the read has waited for that fetch. */
  readonly hasWaited?: boolean
}

/** Result that one of several coalesced reads loaded for all of them. */
export type Loaded = (CachedEntry & Pick<FetchResult, 'textKey'>) | FetchResult

/** Outcome of a read that got a response. */
export type Outcome = Hit | FetchOutcome

/** Outcome of a read that was served from the cache. */
export interface Hit extends Pick<CachedEntry, 'tier' | 'entry' | 'kind' | 'followedAt' | 'hasWaited'> {
  readonly name: 'hit'
  readonly position: Position | undefined
}

/**
 * Outcome of a read that an upstream served: after a cache look-up, or `forwarded` because no cached response applies.
 */
export interface FetchOutcome {
  readonly name: 'miss' | 'collapsed' | 'forwarded'
  readonly fetched: FetchResult
  readonly position: Position | undefined
  readonly followedAt?: Position | undefined
}

/** Returns the name for counting an outcome. */
export function outcomeNameOf (outcome: Outcome): OutcomeName {
  if (outcome.name !== 'hit') return outcome.name
  if (outcome.hasWaited === true) return 'collapsed'
  return outcome.kind === 'followed' ? followedHitName : hitNames[outcome.tier]
}

/** Reports that coalesced callers may share what one of them loaded; a streamed body has one reader. */
export function isShareable (loaded: Loaded): boolean {
  return 'tier' in loaded || loaded.response.rest === undefined
}

/** Prints the Cache-Status of an outcome (RFC 9211). */
export function cacheStatusOf (outcome: Outcome): string {
  switch (outcome.name) {
    case 'hit':
      if (outcome.hasWaited === true) return collapsedStatus
      return hitStatuses[outcome.kind === 'pruned' || outcome.kind === 'followed' ? outcome.kind : outcome.tier]
    case 'collapsed':
      return collapsedStatus
    case 'forwarded':
      return bypassStatus
    case 'miss': {
      const { response, entry, notStored } = outcome.fetched
      const storeStatus = entry === undefined ? `detail=${notStored}` : 'stored'
      return `varve; fwd=uri-miss; fwd-status=${response.status}; ${storeStatus}`
    }
  }
}

const hitStatuses = Object.fromEntries(
  [...tierNames, 'pruned', 'followed'].map(detail => [detail, `varve; hit; detail=${detail}`])
) as Readonly<Record<TierName | 'pruned' | 'followed', string>>

const collapsedStatus = 'varve; fwd=uri-miss; collapsed'

/** Cache-Status of a response forwarded without a cache look-up. */
export const bypassStatus = 'varve; fwd=bypass'

/** Names the outcome of an error response that varve makes. */
export function outcomeOfErrorStatus (status: ErrorResponseStatus): OwnOutcomeName {
  if (status === 410) return 'gone'
  if (status === 429) return 'limited'
  return status >= 500 ? 'unavailable' : 'rejected'
}

/** Prints the Cache-Status of a response that varve makes itself. */
export function ownCacheStatusOf (outcome: OwnOutcomeName): string {
  return `varve; detail=${outcome}`
}

import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { type NotStoredReason } from '../api/lifetime.js'
import { type ErrorResponseStatus } from '../api/error-response.js'

/** Outcomes of responses that varve makes itself: a granted preflight and each kind of error response. */
export const ownOutcomeNames = ['preflight', 'gone', 'rejected', 'limited', 'unavailable'] as const

/** One of the closed list. */
export type OwnOutcomeName = typeof ownOutcomeNames[number]

/** Every outcome of a request: the words that header, access log and metric label share. */
export const outcomeNames = ['hit_memory', 'hit_redis', 'miss', 'collapsed', 'forwarded', ...ownOutcomeNames] as const

/** One of the closed list. */
export type OutcomeName = typeof outcomeNames[number]

/** Upstream response of a fetch, with its entry or the reason for not storing one. */
export type FetchResult =
  | { readonly response: UpstreamResponse, readonly entry: Entry, readonly notStored: undefined }
  | { readonly response: UpstreamResponse, readonly entry: undefined, readonly notStored: NotStoredReason | undefined }

/** Fetch of history, with the key of the request text that the response may quote. */
export type HistoryFetch = FetchResult & { readonly textKey: string }

/** Result of a coalesced history fetch: a Redis entry, an upstream response, or gone from every upstream. */
export type HistoryResult =
  | { readonly from: 'redis', readonly entry: Entry }
  | { readonly from: 'upstream', readonly fetched: HistoryFetch }
  | { readonly from: 'pruned', readonly version: bigint, readonly distance: bigint }

/** Outcome of a read that got a response. */
export type Outcome = Hit | FetchOutcome | ForwardOutcome | ObservedOutcome

/** Served from the cache: history, pruned history, or a micro-cached latest response (`moving`). */
export interface Hit {
  readonly name: 'hit_memory' | 'hit_redis'
  readonly entry: Entry
  readonly kind: 'history' | 'pruned' | 'moving'
  readonly position: Position | undefined
}

/** Served by an upstream after a cache look-up. */
export interface FetchOutcome {
  readonly name: 'miss' | 'collapsed'
  readonly fetched: FetchResult
  readonly position: Position | undefined
}

/** Served by an upstream because no cached response applies. */
export interface ForwardOutcome {
  readonly name: 'forwarded'
  readonly fetched: FetchResult
  readonly position: Position | undefined
}

/** Served by an upstream because varve only observes; counted under its would-be outcome. */
export interface ObservedOutcome {
  readonly name: 'observed'
  readonly wouldBe: OutcomeName
  readonly fetched: FetchResult
  readonly position: Position | undefined
}

/** Returns the name for counting an outcome. */
export function outcomeNameOf (outcome: Outcome): OutcomeName {
  return outcome.name === 'observed' ? outcome.wouldBe : outcome.name
}

/** Narrows an outcome to a hit. */
export function isHit (outcome: Outcome): outcome is Hit {
  return outcome.name === 'hit_memory' || outcome.name === 'hit_redis'
}

/** Reports that coalesced callers may share an outcome; a streamed body has one reader. */
export function isShareable (outcome: Outcome): boolean {
  return isHit(outcome) || outcome.fetched.response.rest === undefined
}

/** Reports that coalesced callers may share a history result; a streamed body has one reader. */
export function isHistoryShareable (result: HistoryResult): boolean {
  return result.from !== 'upstream' || result.fetched.response.rest === undefined
}

/** Prints the Cache-Status of an outcome (RFC 9211). */
export function cacheStatusOf (outcome: Outcome): string {
  switch (outcome.name) {
    case 'hit_memory':
      return outcome.kind === 'pruned' ? prunedHitStatus : 'varve; hit; detail=memory'
    case 'hit_redis':
      return outcome.kind === 'pruned' ? prunedHitStatus : 'varve; hit; detail=redis'
    case 'collapsed':
      return 'varve; fwd=uri-miss; collapsed'
    case 'forwarded':
      return bypassStatus
    case 'observed':
      return outcome.wouldBe.startsWith('hit_') ? `${bypassStatus}; detail=would-hit` : bypassStatus
    case 'miss': {
      const { response, entry, notStored } = outcome.fetched
      const storeStatus = entry === undefined ? `detail=${notStored}` : 'stored'
      return `varve; fwd=uri-miss; fwd-status=${response.status}; ${storeStatus}`
    }
  }
}

const prunedHitStatus = 'varve; hit; detail=pruned'

/** Cache-Status of a response forwarded without a cache look-up. */
export const bypassStatus = 'varve; fwd=bypass'

/** Names the outcome of an error response that varve makes. */
export function outcomeOfError (status: ErrorResponseStatus): OwnOutcomeName {
  switch (status) {
    case 410:
      return 'gone'
    case 429:
      return 'limited'
    case 500:
    case 503:
      return 'unavailable'
    case 400:
    case 401:
    case 403:
    case 404:
    case 405:
    case 408:
      return 'rejected'
    case 413:
    case 414:
    case 415:
    case 417:
    case 431:
      return 'rejected'
  }
}

/** Prints the Cache-Status of a response that varve makes itself. */
export function ownStatusOf (outcome: OwnOutcomeName): string {
  return `varve; detail=${outcome}`
}

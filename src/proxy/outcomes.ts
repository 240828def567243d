import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { type Answer } from '../api/answer.js'
import { type NotKeptReason } from '../api/lifetime.js'
import { type RefusalStatus } from '../api/refusal.js'

/** Outcomes of what varve answers by itself: a granted preflight, and each kind of error response. */
export const ownOutcomeNames = ['preflight', 'gone', 'rejected', 'limited', 'unavailable'] as const

/** One of the closed list. */
export type OwnOutcomeName = typeof ownOutcomeNames[number]

/** Every outcome of a request: the words that header, access log and metric label share. */
export const outcomeNames = ['hit_memory', 'hit_redis', 'miss', 'collapsed', 'forwarded', ...ownOutcomeNames] as const

/** One of the closed list. */
export type OutcomeName = typeof outcomeNames[number]

/** What a fetch brought: the node's answer, and the entry made of it or the reason why there is none. */
export type Fetched =
  | { readonly answer: Answer, readonly entry: Entry, readonly notKept: undefined }
  | { readonly answer: Answer, readonly entry: undefined, readonly notKept: NotKeptReason | undefined }

/** A fetch of history, with the text that its answer may quote. */
export type PinnedFetch = Fetched & { readonly text: string }

/** What a flight for history brings: what replicas share, a node's answer, or that it is gone from every node. */
export type Landing =
  | { readonly from: 'redis', readonly entry: Entry }
  | { readonly from: 'node', readonly fetched: PinnedFetch }
  | { readonly from: 'nowhere', readonly version: bigint, readonly distance: bigint }

/** An answered read. */
export type Outcome = Hit | Fetch | Forward | Observation

/** Answered from the cache: history, beyond the nodes' window where it is pruned, or what was so a moment ago. */
export interface Hit {
  readonly name: 'hit_memory' | 'hit_redis'
  readonly entry: Entry
  readonly kind: 'history' | 'pruned' | 'moment'
  readonly position: Position | undefined
}

/** Answered by a node and looked for in the cache before. */
export interface Fetch {
  readonly name: 'miss' | 'collapsed'
  readonly fetched: Fetched
  readonly position: Position | undefined
}

/** Answered by a node, as nothing kept can answer it. */
export interface Forward {
  readonly name: 'forwarded'
  readonly fetched: Fetched
  readonly position: Position | undefined
}

/** Answered by a node because varve only observes; counted as what it would have been. */
export interface Observation {
  readonly name: 'observed'
  readonly wouldBe: OutcomeName
  readonly fetched: Fetched
  readonly position: Position | undefined
}

/** The name that an outcome is counted under. */
export function countedAs (outcome: Outcome): OutcomeName {
  return outcome.name === 'observed' ? outcome.wouldBe : outcome.name
}

/** Whether it was answered from the cache. */
export function isHit (outcome: Outcome): outcome is Hit {
  return outcome.name === 'hit_memory' || outcome.name === 'hit_redis'
}

/** Whether an outcome may be had by all who asked for it together: what streams has one reader. */
export function isShareable (outcome: Outcome): boolean {
  return isHit(outcome) || outcome.fetched.answer.rest === undefined
}

/** The same of what a flight for history brings. */
export function isForMany (landing: Landing): boolean {
  return landing.from !== 'node' || landing.fetched.answer.rest === undefined
}

/** The Cache-Status line of an outcome (RFC 9211). */
export function cacheStatusOf (outcome: Outcome): string {
  switch (outcome.name) {
    case 'hit_memory':
      return outcome.kind === 'pruned' ? prunedHit : 'varve; hit; detail=memory'
    case 'hit_redis':
      return outcome.kind === 'pruned' ? prunedHit : 'varve; hit; detail=redis'
    case 'collapsed':
      return 'varve; fwd=uri-miss; collapsed'
    case 'forwarded':
      return passedStatus
    case 'observed':
      return outcome.wouldBe.startsWith('hit_') ? `${passedStatus}; detail=would-hit` : passedStatus
    case 'miss': {
      const { answer, entry, notKept } = outcome.fetched
      const end = entry === undefined ? `detail=${notKept}` : 'stored'
      return `varve; fwd=uri-miss; fwd-status=${answer.status}; ${end}`
    }
  }
}

const prunedHit = 'varve; hit; detail=pruned'

/** The Cache-Status line of what is handed on without a look into the cache. */
export const passedStatus = 'varve; fwd=bypass'

/** Names the outcome of an error response that varve makes. */
export function outcomeOfError (status: RefusalStatus): OwnOutcomeName {
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

/** Prints the Cache-Status of what varve answers by itself: the outcome's own word. */
export function ownStatusOf (outcome: OwnOutcomeName): string {
  return `varve; detail=${outcome}`
}

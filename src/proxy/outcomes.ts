import { type Entry } from '../cache/entry.js'
import { type Position } from '../ledger/position.js'
import { type Answer } from '../reads/answer.js'
import { type NotKeptReason } from '../reads/lifetime.js'

/** How a request was answered: the words of metric and log. */
export const outcomeNames = ['hit_memory', 'hit_redis', 'miss', 'collapsed', 'forwarded', 'refused'] as const

/** One of the closed list. */
export type OutcomeName = typeof outcomeNames[number]

/** What a fetch brought: the node's answer, and the entry made of it or the reason why there is none. */
export type Fetched =
  | { readonly answer: Answer, readonly entry: Entry, readonly notKept: undefined }
  | { readonly answer: Answer, readonly entry: undefined, readonly notKept: NotKeptReason | undefined }

/** A fetch of history, with the text that its answer may quote. */
export type PinnedFetch = Fetched & { readonly text: string }

/** An answered read. */
export type Outcome = Hit | Fetch | Forward | Observation

/** Answered from memory: history, beyond the nodes' window where it is pruned, or what was so a moment ago. */
export interface Hit {
  readonly name: 'hit_memory'
  readonly entry: Entry
  readonly kind: 'history' | 'pruned' | 'moment'
  readonly position: Position | undefined
}

/** Answered by a node and looked for in memory before. */
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

/** Whether an outcome may be had by all who asked for it together: what streams has one reader. */
export function isShareable (outcome: Outcome): boolean {
  return outcome.name === 'hit_memory' || outcome.fetched.answer.rest === undefined
}

/** The Cache-Status line of an outcome (RFC 9211). */
export function cacheStatusOf (outcome: Outcome): string {
  switch (outcome.name) {
    case 'hit_memory': return outcome.kind === 'pruned' ? 'varve; hit; detail=pruned' : 'varve; hit; detail=memory'
    case 'collapsed': return 'varve; fwd=uri-miss; collapsed'
    case 'forwarded': return passedStatus
    case 'observed': return outcome.wouldBe === 'hit_memory' ? `${passedStatus}; detail=would-hit` : passedStatus
    case 'miss': {
      const { answer, entry, notKept } = outcome.fetched
      const end = entry === undefined ? `detail=${notKept}` : 'stored'
      return `varve; fwd=uri-miss; fwd-status=${answer.status}; ${end}`
    }
  }
}

/** The Cache-Status line of what is handed on without a look into the cache. */
export const passedStatus = 'varve; fwd=bypass'

/** The Cache-Status line of an answer that varve itself gave. */
export const refusedStatus = 'varve; detail=refused'

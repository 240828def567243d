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

/** An answered read. */
export type Outcome =
  | { readonly name: 'hit_memory', readonly entry: Entry, readonly isPruned: boolean, readonly position: Position | undefined }
  | { readonly name: 'miss' | 'collapsed', readonly fetched: Fetched, readonly position: Position | undefined }
  | { readonly name: 'forwarded', readonly fetched: Fetched, readonly position: Position | undefined }

/** The Cache-Status line of an outcome (RFC 9211). */
export function cacheStatusOf (outcome: Outcome): string {
  switch (outcome.name) {
    case 'hit_memory': return outcome.isPruned ? 'varve; hit; detail=pruned' : 'varve; hit; detail=memory'
    case 'collapsed': return 'varve; fwd=uri-miss; collapsed'
    case 'forwarded': return 'varve; fwd=bypass'
    case 'miss': {
      const { answer, entry, notKept } = outcome.fetched
      const end = entry === undefined ? `detail=${notKept}` : 'stored'
      return `varve; fwd=uri-miss; fwd-status=${answer.status}; ${end}`
    }
  }
}

/** The Cache-Status line of an answer that varve itself gave. */
export const refusedStatus = 'varve; detail=refused'

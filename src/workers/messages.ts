import { type Allowance } from '../clients/buckets.js'
import { type Config } from '../config/schema.js'
import { type Headers, type StampedPosition } from '../api/position.js'
import { type FailureReason } from '../upstreams/node-failure.js'
import { type Refusal } from '../api/refusal.js'

/** How patient a stop is; all of it together ends within ten seconds. */
export interface Patience {
  /** How long clients with kept connections are told that these close, before the listener goes. */
  readonly drainMs?: number
  /** How long what is under way by then may take, before its readers are told that no node could answer. */
  readonly graceMs?: number
  /** How long those words may take to reach them. */
  readonly lastMs?: number
}

/** What came of asking a node of itself. */
export type Polled =
  | { readonly status: number, readonly headers: Headers, readonly body: Uint8Array }
  | { readonly failure: FailureReason }

/**
 * How many chains have borne this name so far, as far as processes have told each other: two that differ here may not
 * be on one chain.
 */
export type Chapter = number

/** What is asked of one worker for an operator. */
export type Asked =
  | { readonly what: 'metrics' | 'status' }
  | { readonly what: 'purge' | 'follow', readonly body: Uint8Array }

/** What it answers: a value of what was asked for, or why not. */
export type Told = { readonly value: unknown } | {
  readonly refusal: Pick<Refusal, 'status' | 'code' | 'message' | 'lines'>
} | { readonly error: string }

/** From the primary process to a worker. */
export type ToWorker =
  | {
    readonly kind: 'begin',
    readonly config: Config,
    readonly sandboxUrl: string | undefined,
    readonly chapter: Chapter
  }
  | { readonly kind: 'polled', readonly node: string, readonly target: string, readonly polled: Polled }
  | { readonly kind: 'head', readonly chapter: Chapter, readonly stamped: StampedPosition }
  | { readonly kind: 'other_chain', readonly chapter: Chapter }
  | { readonly kind: 'taken', readonly id: number, readonly waitMs: number }
  | { readonly kind: 'ask', readonly id: number, readonly asked: Asked }
  | { readonly kind: 'stop', readonly patience: Patience | undefined }

/** From a worker to the primary process. */
export type ToPrimary =
  | { readonly kind: 'up' }
  | { readonly kind: 'listening', readonly url: string }
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed', readonly message: string }
  | { readonly kind: 'alive' }
  | { readonly kind: 'poll', readonly node: string, readonly target: string, readonly timeoutMs: number }
  | { readonly kind: 'head', readonly chapter: Chapter, readonly stamped: StampedPosition }
  | { readonly kind: 'other_chain', readonly chapter: Chapter }
  | { readonly kind: 'take', readonly id: number, readonly subject: string, readonly allowance: Allowance }
  | { readonly kind: 'give_back', readonly subject: string, readonly allowance: Allowance }
  | { readonly kind: 'dropped', readonly purge: Uint8Array }
  | { readonly kind: 'last_word', readonly metrics: unknown, readonly recent: unknown }
  | { readonly kind: 'answer', readonly id: number, readonly told: Told }

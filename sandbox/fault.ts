import { type ErrorCode } from './schema/error.js'
import { type EndpointName } from './routes.js'

/** Scope of a fault: the requests that it applies to. */
export interface FaultScope {
  /** An endpoint; left out: any. */
  readonly match?: EndpointName
  /** How many requests; left out: for ever. */
  readonly times?: number
  /** The share of the requests, from 0 to 1, drawn by the seed. */
  readonly share?: number
}

/** Kinds of faults that a test can inject. */
export type FaultBehaviour =
  /** Answers late; `late` reads the state before the wait, so that the answer is old when it comes. */
  | { readonly kind: 'slow', readonly ms: number, readonly late?: boolean }
  /** Never answers. */
  | { readonly kind: 'hang' }
  /** Resets the connection before any byte. */
  | { readonly kind: 'reset' }
  /** Ends the connection within the body: after half of the promised length, or before the last chunk. */
  | { readonly kind: 'cutShort', readonly chunked?: boolean }
  /** Answers an error of the node's own shape. */
  | {
    readonly kind: 'error',
    readonly code: ErrorCode,
    readonly status?: number,
    readonly stamped?: boolean,
    readonly message?: string
  }
  /** Answers 429 in plain text, as gateways do. */
  | { readonly kind: 'rateLimited', readonly retryAfter?: string }
  /** Answers bytes that are not HTTP. */
  | { readonly kind: 'garbage' }
  /** Answers a provider's page with status 200. */
  | { readonly kind: 'html' }
  /** Answers an error with status 200 and no position, as a panic does. */
  | { readonly kind: 'panic200' }
  /** Changes the headers of the answer. */
  | { readonly kind: 'headers', readonly set?: Readonly<Record<string, string>>, readonly remove?: readonly string[] }
  /** Keeps so far behind the head, in what it says and in what it reads. */
  | { readonly kind: 'lag', readonly blocks?: number, readonly versions?: number }
  /** Stays where the chain was so many blocks before the fault began, as a node restored from a backup. */
  | { readonly kind: 'fallBack', readonly blocks: number }
  /** Serves a chain of another content and a later clock, half as long by default. */
  | { readonly kind: 'otherChain', readonly chainId?: number, readonly blocks?: number }
  /** Answers another body under the headers of the true one. */
  | { readonly kind: 'body', readonly body: string }

/** A fault, and which requests it strikes. */
export type Fault = FaultScope & FaultBehaviour

// A record rather than a list, so that a kind that is left out does not compile.
const kinds: Readonly<Record<FaultBehaviour['kind'], true>> = {
  slow: true,
  hang: true,
  reset: true,
  cutShort: true,
  error: true,
  rateLimited: true,
  garbage: true,
  html: true,
  panic200: true,
  headers: true,
  lag: true,
  fallBack: true,
  otherChain: true,
  body: true
}

/** Accepts untrusted input by its kind alone; other members stay unchecked. */
export function isFault (value: unknown): value is Fault {
  return typeof value === 'object' && value !== null && 'kind' in value && typeof value.kind === 'string' &&
    Object.hasOwn(kinds, value.kind)
}

import { type ErrorCode } from './problem.js'
import { type EndpointName } from './routes.js'
import { type TailFault } from './transaction-page-fault.js'

/** Scope of a fault: the requests that it applies to. */
export interface FaultScope {
  /** Endpoint to match; default: any. */
  readonly match?: EndpointName
  /** Number of requests that the fault applies to; default: unlimited. */
  readonly times?: number
  /** Share of the matching requests, from 0 to 1, drawn from the seed. */
  readonly share?: number
}

/** Kinds of faults that a test can inject. */
export type FaultBehaviour =
  /** Delays the response; `late` reads the state before the wait, so that the response is old when it is sent. */
  | { readonly kind: 'slow', readonly ms: number, readonly late?: boolean }
  /** Never responds. */
  | { readonly kind: 'hang' }
  /** Resets the connection before any byte. */
  | { readonly kind: 'reset' }
  /** Closes the connection within the body: after half of `content-length`, or before the last chunk. */
  | { readonly kind: 'cutShort', readonly chunked?: boolean }
  /** Responds with an error in the node's own format. */
  | {
    readonly kind: 'error',
    readonly code: ErrorCode,
    readonly status?: number,
    readonly stamped?: boolean,
    readonly message?: string
  }
  /** Responds with 429 in plain text, as gateways do. */
  | { readonly kind: 'rateLimited', readonly retryAfter?: string }
  /** Sends bytes that are not HTTP. */
  | { readonly kind: 'garbage' }
  /** Responds with an HTML page of a provider and status 200. */
  | { readonly kind: 'html' }
  /** Responds with an error body, status 200 and no position, as a node does after a panic. */
  | { readonly kind: 'panic200' }
  /** Sets or removes response headers. */
  | { readonly kind: 'headers', readonly set?: Readonly<Record<string, string>>, readonly remove?: readonly string[] }
  /** Lags behind the head by `blocks` and `versions`, in its position and in the state that it reads. */
  | { readonly kind: 'lag', readonly blocks?: number, readonly versions?: number }
  /** Stays `blocks` below the height at which the fault began, as a node restored from a backup. */
  | { readonly kind: 'fallBack', readonly blocks: number }
  /** Serves a different chain with later timestamps, half as long by default. */
  | { readonly kind: 'otherChain', readonly chainId?: number, readonly blocks?: number }
  /** Replaces the body and leaves the headers of the correct response. */
  | { readonly kind: 'body', readonly body: string }
  /** Makes pages of transactions wrong at one version. */
  | TailFault

/** Fault with its scope. */
export type Fault = FaultScope & FaultBehaviour

// Uses a record rather than a list, so that a missing kind does not compile.
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
  body: true,
  tail: true
}

/** Accepts untrusted input by its kind alone; does not check other members. */
export function isFault (value: unknown): value is Fault {
  return typeof value === 'object' && value !== null && 'kind' in value && typeof value.kind === 'string' &&
    Object.hasOwn(kinds, value.kind)
}

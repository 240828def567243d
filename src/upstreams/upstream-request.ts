import { mediaTypes } from '../api/accept.js'
import { type Span } from '../tracing/tracer.js'
import { type RequestBytes } from './in-flight-bytes.js'

// Most upstream requests for one client request, whatever fails and however often it is fetched again (law 10: nothing
// grows without bound).
const maxAttempts = 8

/** Attempts that are left for one client request. */
export interface AttemptBudget {
  left: number
}

/** Builds the budget of a client request. */
export function newAttemptBudget (): AttemptBudget {
  return { left: maxAttempts }
}

/** Client request, as far as upstreams need to know it. */
export interface RequestingClient {
  /** Identity for fair queueing of upstream slots; undefined for work of no client. */
  readonly id: string | undefined
  /** Bytes fetched for the request, which holds them until its response is over. */
  readonly bytes?: RequestBytes | undefined
  /** Present only if the request is traced. */
  readonly span?: Span | undefined
  /** Attempts that the client request may still cost, over all its fetches; undefined bounds each fetch alone. */
  readonly attempts?: AttemptBudget | undefined
}

/**
 * Request built from the canonical read, so nothing outside the key reaches an upstream (law 1: what is keyed is what
 * is sent).
 */
export interface UpstreamRequest {
  readonly endpoint: string
  readonly method: string
  /** Path and query from /v1 on. */
  readonly target: string
  /** Headers that the response depends on, by lower-case name; configured headers never override them. */
  readonly headers: Readonly<Record<string, string>>
  /** Headers about the client and its trace, for the node's own log; responses do not depend on them. */
  readonly callerHeaders?: Readonly<Record<string, string>>
  readonly body?: string | Buffer | undefined
  /** Client request that needs the response; absent for work of no client. */
  readonly client?: RequestingClient | undefined
  /** True to stream the body instead of buffering it; such a request is never hedged. */
  readonly isStreamed?: boolean
  /** True for varve's own polls of the upstream's state and tail, which go before client requests. */
  readonly isProbe?: boolean
  /** Allows one retry after a dead connection (RFC 9110, section 9.2.2). */
  readonly isIdempotent: boolean
}

/** Returns one name for reads that a node's operator disables together. */
export function readsLike ({ endpoint, headers }: UpstreamRequest): string {
  return headers['accept'] === mediaTypes.bcs ? `${endpoint} in BCS` : endpoint
}

/** Builds a poll of the upstream's own state. */
export function probeRequest (target: string): UpstreamRequest {
  return {
    endpoint: 'other',
    method: 'GET',
    target,
    headers: { accept: mediaTypes.json },
    isIdempotent: true,
    isProbe: true
  }
}

/** Subset of AbortSignal by which a request is cancelled. */
export interface CancelSignal {
  readonly aborted: boolean
  readonly reason: Error
  /** True for the second request of a hedged read. */
  readonly isHedge?: boolean
  addEventListener(type: 'abort', listener: () => void, options: { readonly once: true }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

// Shares one error, since a stack trace per cancelled request costs time.
const cancelError = new DOMException('cancelled', 'AbortError')

/** Light AbortSignal for every read, with one listener: a real AbortSignal costs a tenth of a miss. */
export class CancelSource implements CancelSignal {
  readonly reason = cancelError
  readonly isHedge: boolean
  #isCancelled = false
  #listener: (() => void) | undefined

  constructor (isHedge = false) {
    this.isHedge = isHedge
  }

  get aborted (): boolean {
    return this.#isCancelled
  }

  addEventListener (_type: 'abort', listener: () => void): void {
    this.#listener = listener
  }

  removeEventListener (): void {
    this.#listener = undefined
  }

  cancel (): void {
    this.#isCancelled = true
    this.#listener?.()
  }
}

import { type ResponseHeaders, type ResponsePosition } from './position.js'
import { membersIn, stringIn } from './json-scan.js'

/** Unread rest of a body; callers read it to its end or destroy it, else the upstream slot stays taken. */
export interface RemainingBody extends AsyncIterable<Uint8Array> {
  destroy(): void
}

/** Upstream that sent a response, and the number of requests to upstreams that it took. */
export interface ResponseSource {
  readonly upstream: string
  readonly attempts: number
}

/** Response of an upstream, whose body is never changed (law 2: bytes are sacred). */
export interface UpstreamResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** Whole body, or the beginning of a body that is too large to store. */
  readonly body: Buffer
  /** Rest of a body that is not buffered; undefined if `body` is complete. */
  readonly rest: RemainingBody | undefined
  /** True if the body is streamed because no more bytes may be buffered, not for its size. */
  readonly isOverBudget?: boolean | undefined
  /** True if a length or a last chunk marked the end; otherwise a lost connection may have truncated the body. */
  readonly isFramed: boolean
  /** Position stamped on this response; undefined if the upstream sent none. */
  readonly stamped: ResponsePosition | undefined
  /** Upstream's release as known before the request was sent. */
  readonly release: string | undefined
  /** True if the operator chose to ignore Cache-Control and Vary of this upstream. */
  readonly ignoresCacheControl?: boolean | undefined
  /** Present on responses to clients. */
  readonly source?: ResponseSource | undefined
}

/**
 * Returns true if the upstream serves no such reads at the moment: its operator has switched them off, or the index
 * that they need trails (docs/node-behaviour.md, "Errors").
 */
export function reportsDisabled (response: UpstreamResponse, endpoint: string): boolean {
  return (response.status === 403 && errorCodeOf(response) === 'api_disabled') ||
    (response.status === 500 && endpoint === 'transaction_summaries')
}

/** Returns true if the status reports a fault or overload of the upstream, and nothing about the read. */
export function reportsUpstreamFault ({ status }: UpstreamResponse): boolean {
  return status >= 500 || status === 429
}

/** Returns a response header with repeated values joined by commas; undefined if absent. */
export function headerOf (response: UpstreamResponse, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}

/** Returns the content type as the upstream sent it; empty if absent. */
export function contentTypeOf (response: UpstreamResponse): string {
  return headerOf(response, 'content-type') ?? ''
}

/**
 * Returns the media type without parameters in lower case; empty if absent, or if two are listed, because clients may
 * use either.
 */
export function mediaTypeOf (response: UpstreamResponse): string {
  return mediaTypeIn(contentTypeOf(response))
}

/** Returns the media type in the text of a Content-Type, as `mediaTypeOf` does. */
export function mediaTypeIn (text: string): string {
  if (text.includes(',')) return ''
  const end = text.indexOf(';')
  return (end === -1 ? text : text.slice(0, end)).trim().toLowerCase()
}

/** Returns true if the body has a content coding, though varve requests none. */
export function isContentEncoded (response: UpstreamResponse): boolean {
  const coding = headerOf(response, 'content-encoding')?.toLowerCase()
  return coding !== undefined && coding !== '' && coding !== 'identity'
}

/**
 * Returns true for a not-found that is a fact of history: the value does not exist at the version read (law 3: only
 * proven history is stored).
 */
export function isNotFound (response: UpstreamResponse, code: string | undefined): boolean {
  if (code === undefined || response.status !== 404 || mediaTypeOf(response) !== 'application/json') return false
  // Rejects repeated codes by `membersIn`, because `JSON.parse` would use the last one.
  return stringIn(response.body, membersIn(response.body)?.get('error_code')) === code
}

// Codes of a 404 for versions above a node's head: docs/node-behaviour.md, "Several nodes behind one address".
const missingVersionCodes = new Set<unknown>(['version_not_found', 'block_not_found', 'transaction_not_found'])

/** Returns true if a response denies that a version or a height exists yet, as the response of a lagging node does. */
export function deniesVersion (response: UpstreamResponse): boolean {
  return response.status === 404 && missingVersionCodes.has(errorCodeOf(response))
}

/** Returns true for a request that a node rejects, such as a list that starts above its head. */
export function reportsInvalidInput (response: UpstreamResponse): boolean {
  return response.status === 400 && errorCodeOf(response) === 'invalid_input'
}

/** Returns true if the requested value was not found; the 404 of an unknown route does not count. */
export function reportsNotFound (response: UpstreamResponse): boolean {
  return response.status === 404 && String(errorCodeOf(response)).endsWith('_not_found')
}

/**
 * Returns true if a response reports pruning; for events its status can be 500: docs/node-behaviour.md, "Pruned
 * events".
 */
export function reportsPruned (response: UpstreamResponse): boolean {
  return response.status === 410 ||
    (response.status === 500 && /pruned/i.test(String(errorOf(response)?.['message'])))
}

/** Reads `git_hash` from the body of the index; at most 128 characters, because every entry stores it. */
export function releaseInIndex (body: Buffer): string | undefined {
  return /"git_hash"\s*:\s*"([0-9A-Za-z]{1,128})"/.exec(body.toString())?.[1]
}

/** Returns the `error_code` of an error; undefined for any other body. */
export function errorCodeOf (response: UpstreamResponse): unknown {
  return errorOf(response)?.['error_code']
}

/** Returns the members of an error; undefined if the body is no JSON object. */
export function errorOf (response: UpstreamResponse): Readonly<Record<string, unknown>> | undefined {
  try {
    const error: unknown = JSON.parse(response.body.toString())
    return typeof error === 'object' && error !== null ? { ...error } : undefined
  } catch {
    return undefined
  }
}

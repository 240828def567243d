import { type ResponseHeaders, type StampedPosition } from './position.js'
import { membersIn, textIn } from './json-scan.js'

/** What of a body is still to come from the node; whoever does not read it to its end must let go of it. */
export interface RemainingBody extends AsyncIterable<Uint8Array> {
  destroy(): void
}

/** A node's answer to one read; the body is the node's, byte for byte (law 2). */
export interface UpstreamResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The whole body, or what of a larger one had come when it turned out to be too large to keep. */
  readonly body: Buffer
  /** The rest of a body that is not gathered; undefined where the answer is whole. */
  readonly rest: RemainingBody | undefined
  /**
   * Whether its end was marked, by a length or a last chunk; one that ends with its connection may have been cut short.
   */
  readonly isFramed: boolean
  /** The position stamped on this very answer; undefined where the node sent none. */
  readonly stamped: StampedPosition | undefined
  /** The node's release as last learned before the answer. */
  readonly release: string | undefined
  /** Whether what the node's side says against keeping it is to be ignored, as an operator chose for that node. */
  readonly ignoresCacheControl?: boolean | undefined
}

/** Whether a node's word is one on itself, that it is sick or has too much to do, and none on the question. */
export function reportsUpstreamFault ({ status }: UpstreamResponse): boolean {
  return status >= 500 || status === 429
}

/** The one value of a response header; undefined where it is absent. */
export function headerOf (response: UpstreamResponse, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}

/** The content type of an answer as the node wrote it; empty where it is absent. */
export function contentTypeOf (response: UpstreamResponse): string {
  return headerOf(response, 'content-type') ?? ''
}

/**
 * The bare media type of an answer, lower case; empty where there is none, or two of which nobody knows which a client
 * would take.
 */
export function mediaTypeOf (response: UpstreamResponse): string {
  const text = contentTypeOf(response)
  return text.includes(',') ? '' : text.split(';', 1).join('').trim().toLowerCase()
}

/** Whether the body is in a coding, though none was asked for. */
export function isContentEncoded (response: UpstreamResponse): boolean {
  const coding = headerOf(response, 'content-encoding')?.toLowerCase()
  return coding !== undefined && coding !== '' && coding !== 'identity'
}

/**
 * Whether this is the not-found that is a fact of history: what was asked for does not exist at the version read (law
 * 3).
 */
export function isNotFound (response: UpstreamResponse, code: string | undefined): boolean {
  if (code === undefined || response.status !== 404 || mediaTypeOf(response) !== 'application/json') return false
  // Not by a parser that takes the last of two codes: what says two things is certain of none.
  return textIn(response.body, membersIn(response.body)?.get('error_code')) === code
}

/** The `error_code` of a node's error; undefined for any other body. */
export function errorCodeOf (response: UpstreamResponse): unknown {
  return errorOf(response)?.['error_code']
}

/** The members of a node's error; undefined for a body that is no JSON object. */
export function errorOf (response: UpstreamResponse): Readonly<Record<string, unknown>> | undefined {
  try {
    const error: unknown = JSON.parse(response.body.toString())
    return typeof error === 'object' && error !== null ? { ...error } : undefined
  } catch {
    return undefined
  }
}

import { errors } from 'undici'
import { reportsDisabled, type UpstreamResponse } from '../api/upstream-response.js'
import { DnsError } from './dns.js'
import { NoSlotError } from './upstream-limiter.js'

/**
 * Closed list of reasons for a missing or incomplete response: label `status` of varve_upstream_requests_total in place
 * of a status code.
 */
export const failureReasons = [
  'timeout',
  'refused',
  'truncated',
  'invalid_response',
  'unreachable',
  'unresolved',
  'no_slot',
  'exhausted',
  'cancelled'
] as const

// Codes of Node.js and OpenSSL for a handshake that failed, mostly over a certificate.
const tlsCode = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|INVALID_CA|ERR_TLS_|ERR_SSL_|EPROTO)/
// Codes for exhausted resources of this machine.
const localResourceCodes = new Set<unknown>(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

/** Reason of a failure. */
export type FailureReason = typeof failureReasons[number]

/** Error for an upstream that gave no complete response. */
export class UpstreamFailure extends Error {
  readonly reason: FailureReason

  constructor (upstream: string, reason: FailureReason, cause: unknown) {
    super(`${upstream}: ${reason}`, { cause })
    this.reason = reason
  }

  /** Text for logs and the status page. */
  get description (): string {
    const { cause, reason } = this
    const code = String(codeOf(cause))
    // Explains OpenSSL's error: it takes the response of a server without TLS for a record of an unknown version.
    if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG') {
      return 'TLS error: no TLS on this port; use http://'
    }
    if (tlsCode.test(code)) return `TLS error: ${code}`
    if (cause instanceof DnsError) return cause.message
    if (reason === 'unresolved') return 'DNS lookup failed'
    if (reason === 'refused') return 'connection refused'
    return (reason === 'invalid_response'
      ? otherProtocolOf((cause as { data?: string } | undefined)?.data ?? '')
      : undefined) ??
      reason
  }

  /** Wraps an error, with the reason derived from it. */
  static of (upstream: string, error: unknown): UpstreamFailure {
    return error instanceof UpstreamFailure ? error : new UpstreamFailure(upstream, reasonOf(error), error)
  }
}

/**
 * Reason why another upstream may do better. `lagging`: behind the served head. `partial`: may omit pruned history.
 * `disabled`: serves no such reads. `impossible`: never passed on to a client.
 */
export type Flaw =
  | 'impossible'
  | 'lagging'
  | 'pruned'
  | 'partial'
  | 'partial_lagging'
  | 'disabled'
  | 'unhealthy'
  | 'backing_off'

/** Inspects a response before use, and returns its flaw; undefined accepts it. A 429 is not inspected. */
export type InspectResponse = (
  response: UpstreamResponse
) => Exclude<Flaw, 'disabled' | 'unhealthy' | 'backing_off'> | undefined

// Statuses that another upstream may answer better; a 4xx is final.
const failoverStatuses = new Set([500, 502, 503, 504])

/** Returns the flaw of a response to an endpoint, from its status and what an inspection found. */
export function flawOf (
  response: UpstreamResponse,
  inspect: InspectResponse | undefined,
  endpoint: string
): Flaw | undefined {
  if (response.status === 429) return 'backing_off'
  const flaw = inspect?.(response)
  // Ignores an unknown route, whose response says nothing about other routes.
  if (inspect !== undefined && flaw === undefined && endpoint !== 'other' && reportsDisabled(response, endpoint)) {
    return 'disabled'
  }
  return failoverStatuses.has(response.status) && flaw !== 'impossible' && flaw !== 'pruned' ? 'unhealthy' : flaw
}

/** True when a reused connection died: it had carried responses before. */
export function isDeadConnection (error: unknown): boolean {
  return error instanceof errors.SocketError && (error.socket?.bytesRead ?? 0) > 0
}

/** True when the request never left this machine, so the upstream may well have the response. */
export function isLocalFailure (error: unknown): boolean {
  return error instanceof UpstreamFailure && (error.reason === 'no_slot' || error.reason === 'exhausted')
}

/** True when the failure proves nothing about the upstream. */
export function isInconclusive (failure: UpstreamFailure): boolean {
  return failure.reason === 'cancelled' || isLocalFailure(failure)
}

/** Names the protocol of bytes that are no HTTP, because the port may belong to another server, or to TLS. */
function otherProtocolOf (data: string): string | undefined {
  if (/^[-+]/.test(data)) return 'a response of Redis, not HTTP'
  return data.startsWith('\x15\x03') ? 'plain HTTP on a TLS port; use https://' : undefined
}

function reasonOf (error: unknown): FailureReason {
  if (error instanceof NoSlotError) return 'no_slot'
  if (error instanceof DnsError) return 'unresolved'
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) return 'invalid_response'
  if (
    error instanceof errors.ConnectTimeoutError || error instanceof errors.HeadersTimeoutError ||
    error instanceof errors.BodyTimeoutError || nameOf(error) === 'TimeoutError'
  ) return 'timeout'
  if (error instanceof errors.SocketError || error instanceof errors.ResponseContentLengthMismatchError) {
    return 'truncated'
  }
  if (nameOf(error) === 'AbortError') return 'cancelled'
  const code = codeOf(error)
  if (code === 'ECONNREFUSED') return 'refused'
  if (localResourceCodes.has(code)) return 'exhausted'
  return code === 'ECONNRESET' || code === 'EPIPE' ? 'truncated' : 'unreachable'
}

function nameOf (error: unknown): string | undefined {
  return error instanceof Error ? error.name : undefined
}

function codeOf (error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

import { invalidInputError, ErrorResponse } from './error-response.js'

/** What of the routes that varve does not know is passed on: reads, nothing, or everything under /v1. */
export type PassThrough = 'reads' | 'none' | 'all'

// Characters that nodes accept unencoded in a path and in a query (docs/node-behaviour.md, "Request targets").
const legalTarget = /^[\x21\x22\x24-\x3b\x3d\x40-\x5f\x61-\x7e]*(?:\?[\x21\x24-\x3b\x3d\x3f-\x7e]*)?$/

/** A raw request target by its path and query, an absolute form without its scheme and host. */
export function localTarget (target: string): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '')
}

/** Refuses a target with a character that no node reads. */
export function requireLegalTarget (target: string): void {
  if (!legalTarget.test(target)) {
    throw invalidInputError('the request target holds a character that must be percent-encoded')
  }
}

/** The target that a request to a route which varve does not know is passed on with, just as it came; or a refusal. */
export function forwardedTarget (target: string, method: string, policy: PassThrough): string {
  const local = localTarget(target)
  const [path = ''] = local.split('?', 1)
  if (path !== '/v1' && !path.startsWith('/v1/')) throw notServedError()
  requireLegalTarget(local)
  // What ends a segment does so even encoded, to a gateway that decodes before it looks; to some, so does a parameter's
  // semicolon.
  const segments = path.split('/').flatMap(segment => decoded(segment).split(/[/\\?#;]/))
  // A gateway that resolves them would be led out of /v1, whatever varve took them for.
  if (segments.some(part => part === '.' || part === '..')) throw invalidInputError('the path holds a dot segment')
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST') throw methodNotAllowedError('GET, HEAD, POST')
  // The latter makes a test node fail on purpose.
  const needed = !isReadMethod(method) || segments.includes('set_failpoint') ? 'all' : 'reads'
  if (policy === 'none' || (policy === 'reads' && needed === 'all')) throw notForwardedError(policy, needed)
  return local
}

/**
 * Whether a request to such a route only reads, so that asking twice asks for nothing more: every read that is posted
 * is known.
 */
export function isReadMethod (method: string): boolean {
  return method !== 'POST'
}

/**
 * The version in the query of an unknown route, which only ranks upstreams: docs/node-behaviour.md, "Routes".
 */
export function versionInTarget (target: string): bigint | undefined {
  const params = new URLSearchParams(target.split('?', 2)[1])
  const text = params.get('ledger_version') ?? params.get('start_version') ?? ''
  return /^\+?[0-9]{1,20}$/.test(text) ? BigInt(text.replace('+', '')) : undefined
}

/** A method that a route does not have. */
export function methodNotAllowedError (allowed: string): ErrorResponse {
  return new ErrorResponse(405, 'web_framework_error', 'method not allowed', ['allow', allowed])
}

function notServedError (): ErrorResponse {
  return new ErrorResponse(404, 'web_framework_error', 'not found')
}

function notForwardedError (policy: PassThrough, needed: PassThrough): ErrorResponse {
  return new ErrorResponse(
    404,
    'web_framework_error',
    `not forwarded: passThrough is ${policy}, and this request needs passThrough: ${needed}`
  )
}

// Decodes as often as any node does (docs/node-behaviour.md, "Percent-encoding").
function decoded (segment: string): string {
  try {
    return decodeURIComponent(decodeURIComponent(segment))
  } catch {
    throw invalidInputError('failed to parse the path')
  }
}

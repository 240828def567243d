import { type ErrorResponse, webFrameworkError, invalidInputError } from './error-response.js'

/** Policies for unknown routes under /v1, from the narrowest: each forwards more than the policy before it. */
export const passThroughScopes = ['none', 'reads', 'transactions', 'all'] as const

/** Policy for unknown routes. */
export type PassThroughScope = typeof passThroughScopes[number]

// Routes that submit, simulate or encode transactions: a wallet sends only these and reads.
const transactionPaths = new Set([
  '/v1/transactions',
  '/v1/transactions/batch',
  '/v1/transactions/simulate',
  '/v1/transactions/encode_submission'
])

// Characters that nodes accept unencoded in a path and in a query (docs/node-behaviour.md, "Request targets").
const legalTarget = /^[\x21\x22\x24-\x3b\x3d\x40-\x5f\x61-\x7e]*(?:\?[\x21\x24-\x3b\x3d\x3f-\x7e]*)?$/

/** Returns path and query of a raw request target, without the scheme and host of an absolute form. */
export function originFormOf (target: string): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '')
}

/** Throws an ErrorResponse for a target with a character that nodes reject unencoded. */
export function requireLegalCharacters (target: string): void {
  if (!legalTarget.test(target)) {
    throw invalidInputError('the request target contains a character that must be percent-encoded')
  }
}

/**
 * Returns the target to forward for an unknown route, unchanged after the host; throws an ErrorResponse if it is not
 * allowed.
 */
export function forwardedTarget (target: string, method: string, scope: PassThroughScope): string {
  const local = originFormOf(target)
  const [path = ''] = local.split('?', 1)
  if (path !== '/v1' && !path.startsWith('/v1/')) throw notServedError()
  requireLegalCharacters(local)
  // Splits at encoded separators too, because gateways may decode first; some also end a segment at a semicolon.
  const segments = path.split('/').flatMap(segment => decoded(segment).split(/[/\\?#;]/))
  // Rejects dot segments, because a gateway that resolves them would leave /v1.
  if (segments.some(part => part === '.' || part === '..')) throw invalidInputError('the path contains a dot segment')
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST') throw methodNotAllowedError('GET, HEAD, POST')
  // `set_failpoint` makes a test node fail on purpose (docs/node-behaviour.md, "Routes").
  const needed = segments.includes('set_failpoint')
    ? 'all'
    : isSafeMethod(method)
    ? 'reads'
    : transactionPaths.has(path)
    ? 'transactions'
    : 'all'
  if (passThroughScopes.indexOf(scope) < passThroughScopes.indexOf(needed)) throw notForwardedError(scope, needed)
  return local
}

/** Returns true if a request to an unknown route only reads and may be retried; every POST read is a known endpoint. */
export function isSafeMethod (method: string): boolean {
  return method !== 'POST'
}

/** Returns the version in an unknown route's query; undefined if there is none (docs/node-behaviour.md, "Routes"). */
export function versionInTarget (target: string): bigint | undefined {
  const params = new URLSearchParams(target.split('?', 2)[1])
  const text = params.get('ledger_version') ?? params.get('start_version') ?? ''
  return /^\+?[0-9]{1,20}$/.test(text) ? BigInt(text.replace('+', '')) : undefined
}

/** Error for a method that a route does not have. */
export function methodNotAllowedError (allowed: string): ErrorResponse {
  return webFrameworkError(405, 'method not allowed', ['allow', allowed])
}

function notServedError (): ErrorResponse {
  return webFrameworkError(404, 'not found')
}

function notForwardedError (scope: PassThroughScope, needed: PassThroughScope): ErrorResponse {
  return webFrameworkError(404, `not forwarded: passThrough is ${scope}, and this request needs passThrough: ${needed}`)
}

// Decodes as often as any node does (docs/node-behaviour.md, "Percent-encoding").
function decoded (segment: string): string {
  try {
    return decodeURIComponent(decodeURIComponent(segment))
  } catch {
    throw invalidInputError('failed to parse the path')
  }
}

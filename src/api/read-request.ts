import { type Accept, readAccept } from './accept.js'
import { endpoints, type Endpoint, type PathParameter } from './endpoints.js'
import { readPinnedCursor } from './pinned-cursor.js'
import { type Read } from './read.js'
import { invalidInputError, ErrorResponse } from './error-response.js'
import { readRequestBody } from './request-body.js'
import { isSafeMethod, originFormOf, methodNotAllowedError, requireLegalCharacters } from './pass-through-target.js'
import { readU64 } from './integer.js'

/** Client request as received. */
export interface RawRequest {
  readonly method: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
  /** Raw header with the lowest version that a moving response must have been read at. */
  readonly minVersion?: string | readonly string[] | undefined
}

/** Number of events or transactions that full nodes return without a `limit`. */
export const defaultPageLimit = 25

/** Endpoint and raw texts of its parameters; `readRequest` parses them, so that rejections are counted by endpoint. */
export interface EndpointMatch {
  readonly endpoint: Endpoint
  /** Raw target without scheme and host. */
  readonly target: string
  readonly path: readonly CapturedSegment[]
  readonly search: string
  /** True if a node holds the request until the transaction is committed. */
  readonly isAwaited?: boolean
}

/** Path segment: fixed text, or a parameter with its raw text. */
type CapturedSegment = string | { readonly parameter: PathParameter, readonly raw: string }

/**
 * Finds the endpoint of a raw request target, by the path of an absolute form; undefined for unknown routes and writes.
 */
export function matchEndpoint (target: string, method: string): EndpointMatch | undefined {
  const local = originFormOf(target)
  const [path, search] = splitOnce(local, '?')
  // Serves the index under both paths, as nodes do (docs/node-behaviour.md, "Request targets").
  const segments = path === '/v1/' ? ['v1'] : path.split('/').slice(1)
  for (const endpoint of endpoints) {
    const captured = endpoint.hasWriteMethod && method === 'POST' ? undefined : capture(endpoint, segments)
    if (captured !== undefined) return { endpoint, target: local, path: captured, search }
  }
  return undefined
}

/** Matches a wait for a transaction by its hash as the plain read of that transaction. */
export function matchAwaited (target: string, method: string): EndpointMatch | undefined {
  const [, start, rest] = /^(\/v1\/transactions\/)wait_(by_hash\/.*)$/.exec(originFormOf(target)) ?? []
  const match = start === undefined || !isSafeMethod(method) ? undefined : matchEndpoint(`${start}${rest}`, method)
  return match && { ...match, isAwaited: true }
}

/** Normalises a matched request into the read that all its variants share; throws an ErrorResponse if it is invalid. */
export function readRequest (match: EndpointMatch, request: RawRequest): Read {
  const { endpoint } = match
  requireLegalCharacters(match.target)
  if (!allowsMethod(endpoint, request.method)) {
    throw methodNotAllowedError(endpoint.method === 'GET' ? 'GET, HEAD' : endpoint.method)
  }
  const path = match.path.map(segment =>
    typeof segment === 'string' ? segment : encodeURIComponent(readSegment(segment))
  )
  const accept = endpoint.takesAccept ? readAccept(request.accept) : 'json'
  const { ledgerVersion, query, hasPinnedCursor } = unpinCursor(endpoint, readQuery(endpoint, match.search))
  const page = isPaged(endpoint) && accept === 'json' ? pageOf(query) : undefined
  const named = versionMembers(endpoint, path, query, accept)
  return {
    endpoint,
    path: `/${path.join('/')}`,
    query: page === undefined ? query : [...query.filter(isNoLimit), ['limit', String(page.limit)]],
    ledgerVersion,
    requestedVersion: named.requestedVersion ?? ledgerVersion,
    height: named.height,
    mayBeMoving: named.mayBeMoving ?? page !== undefined,
    hasPinnedCursor,
    page,
    accept,
    body: endpoint.takesBody && readRequestBody(endpoint.takesBody, request.contentType, request.body),
    minVersion: readMinVersion(request.minVersion)
  }
}

/** Derives version, height and `mayBeMoving` from the path or from `start`, by the kind of the endpoint. */
function versionMembers (
  { keyedBy }: Endpoint,
  path: readonly string[],
  query: Query['query'],
  accept: Accept
): Partial<Pick<Read, 'requestedVersion' | 'height' | 'mayBeMoving'>> {
  const last = path.slice(-1).join('')
  switch (keyedBy) {
    case 'block':
    case 'transaction':
      return { requestedVersion: BigInt(last) }
    case 'height':
      return { height: BigInt(last) }
    // Stores JSON only, because BCS transactions have no layout that every release shares (docs/node-behaviour.md,
    // "BCS").
    case 'hash':
      return { mayBeMoving: accept === 'json' }
    case 'list': {
      const { start, limit } = Object.fromEntries(query)
      // Ignores `start` with `limit=0`, which nodes always reject (docs/node-behaviour.md, "Page limits").
      return start === undefined || accept !== 'json' || limit === '0'
        ? {}
        : { requestedVersion: BigInt(start), mayBeMoving: true }
    }
    case 'summaries': {
      const { start_version: start, limit } = Object.fromEntries(query)
      return { mayBeMoving: start !== undefined && accept === 'json' && limit !== '0' }
    }
    case 'version':
    case 'page':
    case 'sends':
    case 'auxiliary':
    case 'moving':
      return {}
  }
}

function isPaged ({ keyedBy }: Endpoint): boolean {
  return keyedBy === 'page' || keyedBy === 'sends' || keyedBy === 'auxiliary'
}

function isNoLimit ([name]: readonly [name: string, value: string]): boolean {
  return name !== 'limit'
}

/**
 * Returns the page with an explicit limit, so a missing limit and the same explicit limit are one read; undefined for
 * the newest events or transactions.
 */
function pageOf (query: readonly (readonly [string, string])[]): Read['page'] {
  const { limit = String(defaultPageLimit) } = Object.fromEntries(query)
  const [, start] = query.find(isNoLimit) ?? []
  return start === undefined ? undefined : { start: BigInt(start), limit: BigInt(limit) }
}

function allowsMethod (endpoint: Endpoint, method: string): boolean {
  return method === endpoint.method || (method === 'HEAD' && endpoint.method === 'GET')
}

function capture ({ path }: Endpoint, segments: readonly string[]): CapturedSegment[] | undefined {
  if (segments.length !== path.length) return undefined
  // Compares all segments before any object is made, since most endpoints do not match.
  for (let at = 0; at < path.length; at++) {
    const part = path[at]
    if (typeof part === 'string' && part !== segments[at]) return undefined
  }
  return path.map((part, at) => typeof part === 'string' ? part : { parameter: part, raw: String(segments[at]) })
}

function readSegment ({ parameter, raw }: Exclude<CapturedSegment, string>): string {
  try {
    const decoded = parameter.decodings === 2 ? decodeURIComponent(decodeURIComponent(raw)) : decodeURIComponent(raw)
    const value = parameter.read(decoded)
    if (value !== undefined) return value
  } catch {
    // Rejects broken escapes and invalid UTF-8 like any other invalid text.
  }
  throw invalidInputError(`failed to parse path \`${parameter.name}\``)
}

/** Canonical query of a request, with `ledger_version` apart. */
interface Query {
  readonly ledgerVersion: bigint | undefined
  readonly query: ReadonlyArray<readonly [name: string, value: string]>
}

/** Replaces a pinned cursor by its version and the upstream's own cursor; rejects a contradicting `ledger_version`. */
function unpinCursor (
  endpoint: Endpoint,
  { ledgerVersion, query }: Query
): Query & { readonly hasPinnedCursor: boolean } {
  const start = endpoint.takesCursor ? query.find(([name]) => name === 'start')?.[1] : undefined
  const pinned = start === undefined ? undefined : readPinnedCursor(start)
  if (pinned === undefined) return { ledgerVersion, query, hasPinnedCursor: false }
  if (ledgerVersion !== undefined && ledgerVersion !== pinned.version) {
    throw invalidInputError('the cursor in `start` is of another version than `ledger_version`')
  }
  return {
    ledgerVersion: pinned.version,
    query: query.map(([name, value]) => [name, name === 'start' ? pinned.upstreamCursor : value]),
    hasPinnedCursor: true
  }
}

function readQuery (endpoint: Endpoint, search: string): Query {
  // Decodes a form: `+` is a blank, names may be encoded, unknown names are ignored (docs/node-behaviour.md, "Query
  // parameters"). Adds the `?` that the parser strips, since a second one belongs to a name.
  const given = new URLSearchParams(`?${search}`)
  const query: [string, string][] = []
  let ledgerVersion: bigint | undefined
  for (const [name, read] of Object.entries(endpoint.query)) {
    const [text, ...repeats] = given.getAll(name)
    if (text === undefined) continue
    // Rejects repeated parameters: nodes use the first, other software may use the last, so no key would be certain.
    if (repeats.length > 0) throw invalidInputError(`the parameter \`${name}\` is given more than once`)
    const value = read(text)
    if (value === undefined) throw invalidInputError(`failed to parse parameter \`${name}\``)
    if (name === 'ledger_version') ledgerVersion = BigInt(value)
    else if (value !== 'false' || !endpoint.offByDefault.includes(name)) query.push([name, value])
  }
  return { ledgerVersion, query }
}

function splitOnce (text: string, mark: string): [string, string] {
  const at = text.indexOf(mark)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** Request header with the lowest version that a moving response must have been read at. */
export const minVersionHeader = 'x-varve-min-ledger-version'

/** Reads the header; throws an ErrorResponse if it is invalid or repeated, since commas join repeated headers. */
export function readMinVersion (text: string | readonly string[] | undefined): bigint | undefined {
  if (text === undefined) return undefined
  const version = readU64(String(text))
  if (version === undefined) throw invalidInputError(`failed to parse header \`${minVersionHeader}\``)
  return version
}

/** Error of a node for a version above its head. */
export function versionNotFoundError (version: bigint): ErrorResponse {
  return new ErrorResponse(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`)
}

/** Returns true for the error of a version above the head. */
export function isVersionNotFoundError ({ code }: ErrorResponse): boolean {
  return code === 'version_not_found'
}

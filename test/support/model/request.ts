import { ErrorResponse } from '../../../src/api/error-response.js'
import { type Read } from '../../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../../src/api/read-request.js'
import { isStricterThanUpstream } from '../request-variants.js'
import { type ReceivedRequest } from '../../../sandbox/serve-request.js'

/** A request exactly, short enough for a line of JSON. */
export interface ModelRequest {
  readonly method: string
  readonly target: string
  /** All header fields except Host and the body's length. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** One character per byte. */
  readonly body?: string
  /** True if the body goes in two chunks, without length. */
  readonly isChunked?: true
}

/** Returns a text's bytes as characters. */
export const latin1Of = (text: string): string => Buffer.from(text).toString('latin1')

/** Returns the bytes on the wire. */
export function rawRequestBytes ({ method, target, headers, body, isChunked }: ModelRequest): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, 'host: fuzz', ...headers.map(([name, value]) => `${name}: ${value}`)]
  if (body !== undefined) lines.push(isChunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`)
  return Buffer.from(
    [...lines, '', isChunked && body !== undefined ? chunksOf(body) : body ?? ''].join('\r\n'),
    'latin1'
  )
}

/** Returns a header as Node.js sees it: the first content type, and repeated fields joined otherwise. */
export function headerOf ({ headers }: ModelRequest, name: string): string | undefined {
  const values = headers.filter(([known]) => known.toLowerCase() === name).map(([, value]) =>
    value.replace(/^[ \t]+|[ \t]+$/g, '')
  )
  return values.length === 0 ? undefined : name === 'content-type' ? values[0] : values.join(', ')
}

/**
 * Returns the request as a proxy forwards it: without header fields that Connection names (RFC 9110, section 7.6.1).
 */
export function asForwarded (sent: ModelRequest): ModelRequest {
  const named = (headerOf(sent, 'connection') ?? '').toLowerCase().split(',').map(name => name.trim())
  return { ...sent, headers: sent.headers.filter(([name]) => !named.includes(name.toLowerCase())) }
}

/** Returns the request as a node receives it, with its length. */
export function receivedOf (sent: ModelRequest): ReceivedRequest {
  const { method, target, body } = sent
  return {
    method,
    rawTarget: target,
    accept: headerOf(sent, 'accept'),
    contentType: headerOf(sent, 'content-type'),
    contentLength: body === undefined ? undefined : String(body.length),
    body: Buffer.from(body ?? '', 'latin1'),
    requestIndex: 0
  }
}

function chunksOf (body: string): string {
  const half = Math.ceil(body.length / 2)
  const chunks = [body.slice(0, half), body.slice(half)].filter(text => text !== '')
  return [...chunks, ''].map(text => `${text.length.toString(16)}\r\n${text}\r\n`).join('')
}

/** A response as a client got it. */
export interface ModelResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly bytes: Buffer
}

/** Returns varve's read of a request; undefined if it is rejected or unknown. */
export function parsedReadOf (sent: ModelRequest): Read | undefined {
  try {
    const match = matchEndpoint(sent.target, sent.method)
    if (match === undefined) return undefined
    const request = {
      method: sent.method,
      accept: headerOf(sent, 'accept'),
      contentType: headerOf(sent, 'content-type'),
      body: Buffer.from(sent.body ?? '', 'latin1'),
      minVersion: headerOf(sent, 'x-varve-min-ledger-version')
    }
    return readRequest(match, request)
  } catch (error) {
    if (error instanceof ErrorResponse) return undefined
    throw error
  }
}

/** True if varve knows the endpoint of a request. */
export const isKnownEndpoint = ({ target, method }: ModelRequest): boolean =>
  matchEndpoint(target, method) !== undefined

/** True for a read of state at the newest version. */
export const isLatestState = ({ endpoint, requestedVersion }: Read): boolean =>
  endpoint.keyedBy === 'version' && requestedVersion === undefined

/** True if varve rejects by design what a node may accept. */
export function isStricterByDesign (sent: ModelRequest, servedVersion: bigint | undefined): boolean {
  const body = sent.body === undefined ? undefined : Buffer.from(sent.body, 'latin1').toString()
  if (isStricterThanUpstream({ method: 'GET', target: sent.target, accept: undefined, contentType: undefined, body })) {
    return true
  }
  // Rejects malformed percent-encoding, which decoders treat in different ways.
  if (/%(?![0-9a-fA-F]{2})/.test(sent.target)) return true
  // Rejects features that nodes do not have: an encoded body, an expectation, a least version.
  return headerOf(sent, 'content-encoding') !== undefined || headerOf(sent, 'expect') !== undefined ||
    isAheadOf(servedVersion, headerOf(sent, 'x-varve-min-ledger-version'))
}

// True if the least version was not served yet: it may not come within the few milliseconds of the wait.
function isAheadOf (servedVersion: bigint | undefined, least: string | undefined): boolean {
  return least !== undefined &&
    (servedVersion === undefined || !/^\+?\d+$/.test(least) || BigInt(least.replace('+', '')) > servedVersion)
}

// Mark of a pinned cursor as documented: `varve` and the version in hex, before the node's own cursor.
const prefix = Buffer.from('varve').toString('hex')
const form = new RegExp(`^${prefix}([0-9a-f]{16})((?:[0-9a-f]{2})+)$`)

/** A request as an upstream gets it, and the version in its cursor. */
export interface UnpinnedRequest {
  readonly request: ModelRequest
  readonly pinned: bigint | undefined
  /** True if the request names two versions, which no upstream request can. */
  readonly isContradictory: boolean
}

/** Puts a version in front of a node's own cursor. */
export const pin = (version: bigint, own: string): string => `${prefix}${version.toString(16).padStart(16, '0')}${own}`

/** Splits a cursor into its version and the node's own cursor. */
export function splitPinnedCursor (cursor: string): { readonly version: bigint, readonly own: string } | undefined {
  const [, version, own] = form.exec(cursor.toLowerCase()) ?? []
  return version === undefined || own === undefined ? undefined : { version: BigInt(`0x${version}`), own }
}

/** Resolves a pinned cursor: a read at its version, from the node's own cursor on. */
export function unpinRequest (sent: ModelRequest): UnpinnedRequest {
  const at = sent.target.indexOf('?')
  const plain = { request: sent, pinned: undefined, isContradictory: false }
  if (at === -1 || !isListing(sent)) return plain
  const params = new URLSearchParams(`?${sent.target.slice(at + 1)}`)
  const pinned = splitPinnedCursor(params.get('start') ?? '')
  if (pinned === undefined) return plain
  const given = params.get('ledger_version')
  // Leaves everything else unchanged: a node may reject it.
  const pieces = sent.target.slice(at + 1).split('&').map(piece =>
    new URLSearchParams(`?${piece}`).has('start') ? `start=${pinned.own}` : piece
  )
  if (given === null) pieces.push(`ledger_version=${pinned.version}`)
  const isContradictory = given !== null && /^\+?\d+$/.test(given) && BigInt(given.replace('+', '')) !== pinned.version
  return {
    request: { ...sent, target: `${sent.target.slice(0, at)}?${pieces.join('&')}` },
    pinned: pinned.version,
    isContradictory
  }
}

/** True if the response may have the cursor of a listing that began without version. */
export function startsListing (sent: ModelRequest): boolean {
  return isListing(sent) && !new URLSearchParams(`?${sent.target.split('?').slice(1).join('?')}`).has('ledger_version')
}

const isListing = ({ target, method }: ModelRequest): boolean =>
  ['account_modules', 'account_resources'].includes(matchEndpoint(target, method)?.endpoint.name ?? '')

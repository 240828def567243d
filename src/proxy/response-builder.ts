import { type Compressor } from '../cache/compressor.js'
import { etagForCoding, type Entry, computeEtag } from '../cache/entry.js'
import { flattenHeader, joinPrinted, printHeaders } from '../cache/print-headers.js'
import { type EncryptionKey, type Tracker } from '../chain/tracker.js'
import { type UpstreamResponse, contentTypeOf, headerOf, type RemainingBody } from '../api/upstream-response.js'
import { readAcceptEncoding } from '../api/accept.js'
import { classOf, dependsOnRelease, type Read } from '../api/read.js'
import { type ErrorResponse } from '../api/error-response.js'
import { headerNamesOf, headerSuffix, type Position, positionHeaders, ownHeaderFamily } from '../api/position.js'
import { isVersionNotFoundError } from '../api/read-request.js'
import { type Outcome, cacheStatusOf, outcomeOfErrorStatus, ownCacheStatusOf, bypassStatus } from './outcomes.js'
import {
  emittedFamiliesOf,
  makeCursorAndGasHeaders,
  readCursorAndGas,
  pinCursorHeaders,
  cursorVersionOf
} from './cursor-and-gas-headers.js'
import { type Config } from '../config/schema.js'
import { archivalEndpointHeaders } from '../api/pruned-error-builder.js'

/** Response ready to be written, with headers as a flat list, which Node.js writes fastest. */
export interface ClientResponse {
  readonly status: number
  readonly rawHeaders: readonly string[]
  /** Headers as HTTP/1 text, without Content-Length; undefined if each header must be printed by itself. */
  readonly headerText?: string | undefined
  readonly body: Buffer | undefined
  /** Rest of the body, streamed from the upstream. */
  readonly rest?: RemainingBody | undefined
}

/** Request headers that choose the representation of a response. */
export interface ResponsePreferences {
  readonly ifNoneMatch: string | undefined
  readonly acceptEncoding: string | undefined
}

/** Policy for the Cache-Control of stored responses, for clients and CDNs. */
export type DownstreamCacheControl = 'revalidate' | 'immutable' | 'off'

// Allow-list of upstream headers for responses that are not stored: Set-Cookie, Trailer and hop-by-hop headers must not
// pass.
const forwardedHeaders = ['content-type', 'content-encoding', 'retry-after', 'www-authenticate']

// Allow-list for unknown routes, whose responses may be anything. Leaves out Location, which would name the upstream's
// own address.
const passThroughHeaders = [
  ...forwardedHeaders,
  'content-length',
  'content-language',
  'content-disposition',
  'cache-control',
  'etag',
  'last-modified',
  'allow',
  'traceparent'
]

// Headers whose repeated values may be joined. Of other headers the first value counts, since a joined one would be
// invalid.
const listHeaders = new Set([
  'content-encoding',
  'www-authenticate',
  'content-language',
  'cache-control',
  'vary',
  'allow'
])

/** Vary of every known read: an endpoint has two media types and several codings. */
const varyOfReads = 'Accept, Accept-Encoding'

/** Parts that build responses. */
export interface BuilderParts {
  readonly tracker: Tracker
  readonly compressor: Compressor
  readonly settings: Pick<Config, 'headers' | 'latest' | 'pages'>
}

/** Stamps outcomes with a position (law 4: headers are the present, bodies are the past). */
export class ResponseBuilder {
  readonly #tracker: Tracker
  readonly #compressor: Compressor
  readonly #settings: BuilderParts['settings']
  readonly #cacheControl: DownstreamCacheControl
  readonly #isPrivate: boolean
  readonly #variesByOrigin: boolean
  readonly #commonHeaders: CommonHeaderCache

  constructor (
    context: BuilderParts,
    cacheControl: DownstreamCacheControl,
    isPrivate = false,
    variesByOrigin = false
  ) {
    this.#tracker = context.tracker
    this.#compressor = context.compressor
    this.#settings = context.settings
    this.#cacheControl = cacheControl
    this.#isPrivate = isPrivate
    this.#variesByOrigin = variesByOrigin
    this.#commonHeaders = new CommonHeaderCache(context.tracker, context.settings.headers.emit, variesByOrigin)
  }

  /** Builds the response to a read; 304 if the client already has the body. */
  respond (read: Read, outcome: Outcome, preferences: ResponsePreferences): ClientResponse {
    if (outcome.name === 'hit') return this.#respondFromCache(outcome.entry, read, outcome, preferences)
    const { response, entry } = outcome.fetched
    // Sends `no-store` with a latest response, even if it was stored under its version.
    return entry === undefined || outcome.name === 'forwarded'
      ? this.#respondFromUpstream(response, read, outcome, preferences)
      : this.#respondFromCache(entry, read, outcome, preferences)
  }

  /** Builds an error response in the node's shape. Known reads and missing versions carry the served position. */
  respondWithError (error: ErrorResponse, isKnownRead: boolean): ClientResponse {
    const body = Buffer.from(error.body)
    const { position, sharedHeads } = this.#tracker
    const hasPosition = (isKnownRead || isVersionNotFoundError(error)) &&
      sharedHeads?.has(position?.head.version) !== false
    const status = ownCacheStatusOf(outcomeOfErrorStatus(error.status))
    const head = hasPosition
      ? this.#commonHeaders.get(position, status, 'no-store').rawHeaders
      : ['cache-status', status, 'cache-control', 'no-store', ...this.#varyHeader(undefined)]
    return {
      status: error.status,
      rawHeaders: head.concat(
        'content-type',
        'application/json',
        'content-length',
        String(body.length),
        error.rawHeaders
      ),
      body
    }
  }

  /** Builds the response to a forwarded request, with its own position in every emitted header family. */
  respondForwarded (response: UpstreamResponse): ClientResponse {
    const family = response.stamped?.family ?? this.#tracker.family
    const position = response.stamped?.position
    const rawHeaders = [
      'cache-status',
      bypassStatus,
      ...this.#commonHeaders.positionHeaders(position),
      ...makeCursorAndGasHeaders(readCursorAndGas(response, family), this.#settings.headers.emit, family),
      ...archivalEndpointHeaders(response)
    ]
    rawHeaders.push(...this.#varyHeader(headerValueOf(response, 'vary')))
    for (const name of passThroughHeaders) {
      const value = headerValueOf(response, name)
      if (name === 'cache-control') {
        rawHeaders.push(name, this.#isPrivate ? 'private, no-store' : value ?? 'no-store')
      } else if (value !== undefined && (name !== 'content-length' || response.status !== 204)) {
        rawHeaders.push(name, value)
      }
    }
    return { status: response.status, rawHeaders, body: response.body, rest: response.rest }
  }

  #varyHeader (names: string | undefined): readonly string[] {
    const vary = varyOf(names, this.#variesByOrigin)
    return vary === undefined ? [] : ['vary', vary]
  }

  #respondFromCache (
    entry: Entry,
    read: Read,
    outcome: Outcome,
    { ifNoneMatch, acceptEncoding }: ResponsePreferences
  ): ClientResponse {
    const cacheControl = this.#cacheControlOf(read)
    const head = this.#commonHeaders.get(outcome.position, cacheStatusOf(outcome), cacheControl)
    const cursorVersion = cursorVersionOf(this.#settings, read, outcome)
    const codings = readAcceptEncoding(acceptEncoding)
    const form = this.#compressor.representationOf(entry, codings)
    // Accepts the tag of any representation, which the client may have from an earlier request.
    const tags = (): string[] => [form.etag, entry.etag, ...codings.map(coding => etagForCoding(entry, coding))]
    const matchedTag = ifNoneMatch === undefined || entry.status !== 200 ? undefined : matchingTag(ifNoneMatch, tags)
    if (matchedTag !== undefined) {
      const lines = ['etag', matchedTag, ...pinCursorHeaders(entry.cursorAndGasHeaders, cursorVersion)]
      return {
        status: 304,
        rawHeaders: head.rawHeaders.concat(lines),
        headerText: joinPrinted(head.headerText, printHeaders(lines)),
        body: undefined
      }
    }
    // Prints in advance only headers without a pinned cursor, because one entry serves reads with and without it.
    const lines = cursorVersion === undefined ? form.rawHeaders : pinCursorHeaders(form.rawHeaders, cursorVersion)
    const formText = lines === form.rawHeaders ? form.headerText : printHeaders(lines)
    const headerText = joinPrinted(head.headerText, formText)
    return { status: entry.status, rawHeaders: head.rawHeaders.concat(lines), headerText, body: form.body }
  }

  #respondFromUpstream (
    response: UpstreamResponse,
    read: Read,
    outcome: Outcome,
    { ifNoneMatch }: ResponsePreferences
  ): ClientResponse {
    const { family } = this.#tracker
    const head = this.#commonHeaders.get(outcome.position, cacheStatusOf(outcome), 'no-store')
    const own = pinCursorHeaders(
      makeCursorAndGasHeaders(readCursorAndGas(response, family), this.#settings.headers.emit, family),
      cursorVersionOf(this.#settings, read, outcome)
    )
    const rawHeaders = head.rawHeaders.concat(own)
    const etag = response.status === 200 && response.rest === undefined
      ? computeEtag(contentTypeOf(response), response.body)
      : undefined
    if (etag !== undefined) rawHeaders.push('etag', etag)
    if (etag !== undefined && matchingTag(ifNoneMatch, () => [etag]) !== undefined) {
      return { status: 304, rawHeaders, body: undefined }
    }
    for (const name of forwardedHeaders) {
      const value = headerValueOf(response, name)
      if (value !== undefined) rawHeaders.push(name, value)
    }
    if (response.status === 410) rawHeaders.push(...archivalEndpointHeaders(response))
    const length = response.rest === undefined
      ? String(response.body.length)
      : headerValueOf(response, 'content-length')
    if (length !== undefined) rawHeaders.push('content-length', length)
    return { status: response.status, rawHeaders, body: response.body, rest: response.rest }
  }

  // A latest response stays `no-store` for the client. Others are `private` if clients need keys, so that shared caches
  // serve them to no one else.
  #cacheControlOf (read: Read): string | undefined {
    if (classOf(read) === 'moving') return 'no-store'
    switch (this.#cacheControl) {
      case 'off':
        return this.#isPrivate ? 'private' : undefined
      case 'revalidate':
        return this.#isPrivate ? 'private, no-cache' : 'no-cache'
      case 'immutable':
        return `${this.#isPrivate ? 'private' : 'public'}, ${
          isImmutable(read) ? 'max-age=31536000, immutable' : 'max-age=86400'
        }`
    }
  }
}

function headerValueOf (response: UpstreamResponse, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) && !listHeaders.has(name) ? value[0] : headerOf(response, name)
}

// Excludes renderings and view results, which another release may change, and paths that may get another event stream.
function isImmutable (read: Read): boolean {
  return !read.mayBeMoving && !dependsOnRelease(read) && read.endpoint.takesBody !== 'view'
}

/**
 * Returns the first tag that If-None-Match lists, by weak comparison (RFC 9110, section 13.1.2); undefined if none
 * matches. Calls `tags` only if the header is present.
 */
export function matchingTag (ifNoneMatch: string | undefined, tags: () => readonly string[]): string | undefined {
  if (ifNoneMatch === undefined) return undefined
  const [best] = tags()
  if (ifNoneMatch.trim() === '*') return best
  const clientTags = new Set(ifNoneMatch.split(',').map(tag => tag.trim().replace(/^W\//, '')))
  return tags().find(tag => clientTags.has(tag))
}

/** Headers that several responses share, flat and as HTTP/1 text. */
interface CommonHeaders {
  readonly rawHeaders: readonly string[]
  readonly headerText: string | undefined
}

/** Cached headers, and the values that select them. */
interface CachedCommonHeaders extends CommonHeaders {
  readonly cacheStatus: string
  readonly cacheControl: string | undefined
}

/** Caches the headers that all responses at one position share, so they are built once per position. */
class CommonHeaderCache {
  readonly #tracker: Tracker
  readonly #emit: Config['headers']['emit']
  readonly #vary: string
  #position: Position | undefined
  #family: string | undefined
  #encryptionKey: EncryptionKey | undefined
  /** Position header names of every emitted family; they change only with the family. */
  #headerNames: readonly (readonly string[])[] | undefined
  /** The node's own name alone, because clients know no other. */
  #encryptionKeyNames: readonly string[] = []
  /** Headers at this position: so few that a linear search is cheaper than a new map for each position. */
  readonly #cached: CachedCommonHeaders[] = []

  constructor (tracker: Tracker, emit: Config['headers']['emit'], variesByOrigin = false) {
    this.#tracker = tracker
    this.#emit = emit
    this.#vary = variesByOrigin ? `${varyOfReads}, Origin` : varyOfReads
  }

  /** Returns the headers of a known read's response, except those of its own body. */
  get (position: Position | undefined, cacheStatus: string, cacheControl: string | undefined): CommonHeaders {
    this.#currentHeaderNames()
    const { encryptionKey } = this.#tracker
    if (this.#position !== position || this.#encryptionKey !== encryptionKey) {
      this.#cached.length = 0
      this.#position = position
      this.#encryptionKey = encryptionKey
    }
    for (const made of this.#cached) {
      if (made.cacheStatus === cacheStatus && made.cacheControl === cacheControl) return made
    }
    const rawHeaders = ['cache-status', cacheStatus, 'vary', this.#vary, ...this.positionHeaders(position)]
    if (cacheControl !== undefined) rawHeaders.push('cache-control', cacheControl)
    const made = { cacheStatus, cacheControl, rawHeaders, headerText: printHeaders(rawHeaders) }
    this.#cached.push(made)
    return made
  }

  /** Returns the headers of a position in every emitted family, and the key of its epoch. */
  positionHeaders (position: Position | undefined): readonly string[] {
    if (position === undefined) return []
    const headers = this.#currentHeaderNames().flatMap(names => positionHeaders(position, names))
    const { encryptionKey } = this.#tracker
    if (encryptionKey !== undefined && encryptionKey.epoch === position.head.epoch) {
      for (const name of this.#encryptionKeyNames) headers.push(name, encryptionKey.text)
    }
    return headers
  }

  #currentHeaderNames (): readonly (readonly string[])[] {
    const { family } = this.#tracker
    if (this.#headerNames !== undefined && this.#family === family) return this.#headerNames
    this.#headerNames = emittedFamiliesOf(this.#emit, family).map(prefix =>
      headerNamesOf(prefix).position.map(name => flattenHeader(prefix === ownHeaderFamily ? name.toUpperCase() : name))
    )
    this.#encryptionKeyNames = family !== undefined && this.#emit.includes('upstream')
      ? [flattenHeader(family + headerSuffix.encryptionKey)]
      : []
    this.#family = family
    // Cached headers use the names of the previous family.
    this.#cached.length = 0
    return this.#headerNames
  }
}

/** Merges Vary names and, when CORS headers depend on it, Origin; undefined when nothing varies. */
export function varyOf (names: string | undefined, variesByOrigin: boolean): string | undefined {
  const byName = new Map<string, string>()
  for (const item of [...names?.split(',') ?? [], ...(variesByOrigin ? ['Origin'] : [])]) {
    const name = item.trim()
    if (name !== '' && !byName.has(name.toLowerCase())) byName.set(name.toLowerCase(), name)
  }
  // `*` covers every name and must be the only one (RFC 9110, section 12.5.5).
  if (byName.has('*')) return '*'
  return byName.size === 0 ? undefined : [...byName.values()].join(', ')
}

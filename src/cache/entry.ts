import { createHash, hash } from 'node:crypto'
import { type EntryInterval } from '../api/read.js'
import { type Position } from '../api/position.js'
import { type Coding } from '../api/accept.js'
import { type StateDigest } from '../api/state-key.js'
import { flattenHeader, printHeaders } from './print-headers.js'

/** One form of an entry's body, prepared once so that a hit only writes it out. */
export interface Representation {
  readonly body: Buffer
  readonly etag: string
  /** Headers of this form as a flat list of names and values: type, coding, length, ETag, cursor, gas. */
  readonly rawHeaders: readonly string[]
  /** Printed headers without content-length; undefined if a header is invalid. */
  readonly headerText: string | undefined
}

/** Cached response; the entry itself is the form without a coding. */
export interface Entry extends Representation {
  readonly key: string
  readonly status: 200 | 404
  readonly contentType: string
  /** Lines of the cursor and the gas used, once under each of their header names. */
  readonly cursorAndGasHeaders: readonly string[]
  /** Compressed forms made so far; a coding that saves nothing has the entry's own body. */
  readonly encoded: Readonly<Partial<Record<Coding, Representation>>>
  /** Upstream release that rendered the body; undefined if unknown (law 8: rendering can change, history cannot). */
  readonly release: string | undefined
  /** Expiry on the clock of this process; undefined for entries that never expire. */
  readonly expiresAtMs: number | undefined
  /** Versions of a block or of state; undefined for entries that are found by key alone. */
  readonly validity: EntryInterval | undefined
  /**
   * Lowest version in the body, if the read names none. No served position is below it (law 4: headers are the present,
   * bodies are the past).
   */
  readonly lowestVersion: bigint | undefined
  /** Position at which a latest response was fetched; undefined for other reads, and without position headers. */
  readonly readAt: Position | undefined
  /** State keys that the response depends on; undefined unless its validity interval can grow. */
  readonly dependencies: readonly StateDigest[] | undefined
}

/** Input of `makeEntry`. */
export type EntryParts =
  & Pick<Entry, 'key' | 'status' | 'contentType' | 'body' | 'cursorAndGasHeaders' | 'release'>
  & Partial<Pick<Entry, 'expiresAtMs' | 'validity' | 'lowestVersion' | 'readAt' | 'dependencies'>>

// Costs measured as resident memory (bench/NOTES.md): of the entry, strings, array, Buffer and LRU slot, of the
// allocator, and of uncollected garbage while a full cache evicts.
const entryOverheadBytes = 1800
const overheadFactor = 1.25
const intervalOverheadBytes = 200
const representationOverheadBytes = 600
const dependencyBytes = 32
// Larger bodies are hashed in two steps and never copied, or each fetch would take its bytes three times.
const minOwnBytes = 64 * 1024

// Shares one object, because most entries never get a compressed form.
const noneEncoded: Entry['encoded'] = {}

/** Builds an entry with its ETag and printed headers; the body is copied. */
export function makeEntry (parts: EntryParts): Entry {
  const { key, status, contentType, cursorAndGasHeaders, release } = parts
  const { expiresAtMs, validity, lowestVersion, readAt, dependencies } = parts
  const { body, etag } = parts.body.length < minOwnBytes
    ? copyWithEtag(contentType, parts.body)
    : { body: copyBytes(parts.body), etag: computeEtag(contentType, parts.body) }
  const rawHeaders = rawHeadersOf(parts, body, etag, [])
  // Names each property, because an object built by spreading takes several times the memory.
  return {
    key,
    status,
    contentType,
    body,
    etag,
    rawHeaders,
    headerText: printHeaders(rawHeaders),
    cursorAndGasHeaders,
    encoded: noneEncoded,
    release,
    expiresAtMs,
    validity,
    lowestVersion,
    readAt,
    dependencies
  }
}

/** Returns a copy of the entry with one more form. */
export function withRepresentation (entry: Entry, coding: Coding, body: Buffer): Entry {
  // Copies the fields, because a reference to the replaced entry would prevent its collection.
  const own = { body: entry.body, etag: entry.etag, rawHeaders: entry.rawHeaders, headerText: entry.headerText }
  const form = body.length < entry.body.length ? makeEncoded(entry, coding, copyBytes(body)) : own
  return { ...entry, encoded: { ...entry.encoded, [coding]: form } }
}

/** Returns the ETag of a coded form: each coding is another representation (RFC 9110, section 8.8.3.3). */
export function etagForCoding (entry: Representation, coding: Coding): string {
  return flattenHeader(`${entry.etag.slice(0, -1)}-${coding}"`)
}

/** Returns the true memory cost of an entry in bytes (law 10: nothing grows without bound). */
export function costOf (entry: Entry): number {
  const indexBytes = entry.validity === undefined
    ? 0
    : intervalOverheadBytes + entry.validity.family.length +
      (entry.dependencies?.length ?? 0) * dependencyBytes
  let bytes = entryOverheadBytes + entry.key.length + indexBytes + bytesOf(entry)
  for (const form of Object.values(entry.encoded)) {
    if (form.body !== entry.body) bytes += representationOverheadBytes + bytesOf(form)
  }
  return Math.ceil(bytes * overheadFactor)
}

function bytesOf ({ body, headerText = '', rawHeaders }: Representation): number {
  let bytes = body.length + headerText.length
  for (const text of rawHeaders) bytes += text.length
  return bytes
}

/** Returns a strong ETag of content type and body. */
export function computeEtag (contentType: string, body: Buffer): string {
  return body.length < minOwnBytes
    ? copyWithEtag(contentType, body).etag
    : etagOf(createHash('sha256').update(`${contentType}\n`).update(body).digest('base64url'))
}

/**
 * Copies a short body behind its type, so that one hash of both gives the ETag; a one-shot hash leaves no object to
 * collect.
 */
function copyWithEtag (contentType: string, body: Buffer): Pick<Entry, 'body' | 'etag'> {
  const head = `${contentType}\n`
  const headBytes = Buffer.byteLength(head)
  const bytes = Buffer.allocUnsafeSlow(headBytes + body.length)
  bytes.write(head)
  body.copy(bytes, headBytes)
  return { body: bytes.subarray(headBytes), etag: etagOf(hash('sha256', bytes, 'base64url')) }
}

function etagOf (digest: string): string {
  return flattenHeader(`"${digest.slice(0, 27)}"`)
}

function makeEncoded (entry: Entry, coding: Coding, body: Buffer): Representation {
  const etag = etagForCoding(entry, coding)
  const rawHeaders = rawHeadersOf(entry, body, etag, ['content-encoding', coding])
  return { body, etag, rawHeaders, headerText: printHeaders(rawHeaders) }
}

function rawHeadersOf (
  { contentType, cursorAndGasHeaders }: Pick<Entry, 'contentType' | 'cursorAndGasHeaders'>,
  body: Buffer,
  etag: string,
  coding: string[]
): string[] {
  return [
    'content-type',
    contentType,
    ...coding,
    'content-length',
    String(body.length),
    'etag',
    etag,
    ...cursorAndGasHeaders
  ]
}

// A pooled or sliced buffer retains its whole slab; a copy uses exactly the memory that is counted. A large body that
// has a buffer of its own stays where it is.
function copyBytes (body: Buffer): Buffer {
  if (body.length === body.buffer.byteLength && body.length >= minOwnBytes) return body
  const copy = Buffer.allocUnsafeSlow(body.length)
  body.copy(copy)
  return copy
}

import { hash } from 'node:crypto'
import { type Position } from '../api/position.js'
import { type Coding } from '../api/coding.js'
import { flattenString } from './flatten-string.js'
import { type StreamEvents } from './page-index.js'
import { printHeaders } from './print-headers.js'

/** One form of an entry's body, prepared once so that a hit only writes it out. */
export interface Representation {
  readonly body: Buffer
  readonly etag: string
  /** All the header lines that belong to the answer in this form, flat: type, coding, length, tag, cursor, gas. */
  readonly rawHeaders: readonly string[]
  /** The same printed, but for the length; undefined where they cannot be. */
  readonly headerText: string | undefined
}

/** An answer as it is kept; it is itself the form without a coding. */
export interface Entry extends Representation {
  readonly key: string
  readonly status: 200 | 404
  readonly contentType: string
  /** Lines such as the cursor, under every name that they are sent by. */
  readonly perResponseHeaders: readonly string[]
  /** The coded forms made so far; where a coding gains nothing, the entry's own form stands for it. */
  readonly encoded: Readonly<Partial<Record<Coding, Representation>>>
  /** The release that rendered it; undefined where it was not known (law 8). */
  readonly release: string | undefined
  /** When it stops being believed, on the clock of this process; undefined: never. */
  readonly expiresAtMs: number | undefined
  /** The block that it is; it answers for each of these versions. */
  readonly block: BlockRange | undefined
  /** The events that it is a page of, as the index files it. */
  readonly page: StreamEvents | undefined
  /** The lowest version that it tells of, where the read itself names none. */
  readonly lowestVersion: bigint | undefined
  /** The position that it was read at, where it was read at the head. */
  readonly readAt: Position | undefined
}

/** Which versions a block answers for, and where the index files it. */
export interface BlockRange {
  readonly blockIndexKey: string
  readonly first: bigint
  readonly last: bigint
}

/** What an entry is made of. */
export type EntryParts =
  & Pick<Entry, 'key' | 'status' | 'contentType' | 'body' | 'perResponseHeaders' | 'release'>
  & Partial<Pick<Entry, 'expiresAtMs' | 'block' | 'page' | 'lowestVersion' | 'readAt'>>

// Measured as resident memory (bench/NOTES.md): the entry, its strings and array, the Buffer and its header, its slot
// in the LRU's tables, with what the allocator takes for them; and what of all that waits to be collected while a full
// cache makes room.
const entryOverheadBytes = 1800
const overheadFactor = 1.25
const blockOverheadBytes = 200
const pageOverheadBytes = 500
const representationOverheadBytes = 600

// One for all that have none, since most never do.
const noneEncoded: Entry['encoded'] = {}

/** Prepares an entry. */
export function makeEntry (parts: EntryParts): Entry {
  const { key, status, contentType, perResponseHeaders, release, expiresAtMs, block, page, lowestVersion, readAt } =
    parts
  const body = copyBytes(parts.body)
  const etag = etagOf(contentType, body)
  const rawHeaders = rawHeadersOf(parts, body, etag, [])
  // Each by its name: an object that is put together from others takes several times the memory.
  return {
    key,
    status,
    contentType,
    body,
    etag,
    rawHeaders,
    headerText: printHeaders(rawHeaders),
    perResponseHeaders,
    encoded: noneEncoded,
    release,
    expiresAtMs,
    block,
    page,
    lowestVersion,
    readAt
  }
}

/** The same entry with one more form. */
export function withRepresentation (entry: Entry, coding: Coding, body: Buffer): Entry {
  // Not the entry itself where nothing is gained, or it would live on behind what has become of it.
  const own = { body: entry.body, etag: entry.etag, rawHeaders: entry.rawHeaders, headerText: entry.headerText }
  const form = body.length < entry.body.length ? makeEncoded(entry, coding, copyBytes(body)) : own
  return { ...entry, encoded: { ...entry.encoded, [coding]: form } }
}

/** The tag of an entry's body in a coding: another form is another representation (RFC 9110, section 8.8.3.3). */
export function etagForCoding (entry: Representation, coding: Coding): string {
  return flattenString(`${entry.etag.slice(0, -1)}-${coding}"`)
}

/** The memory that the process needs to keep an entry. */
export function costOf (entry: Entry): number {
  const representations = [entry, ...Object.values(entry.encoded).filter(({ body }) => body !== entry.body)]
  const indexBytes = (entry.block === undefined ? 0 : blockOverheadBytes) +
    (entry.page === undefined ? 0 : pageOverheadBytes)
  const overhead = entryOverheadBytes + entry.key.length + indexBytes +
    (representations.length - 1) * representationOverheadBytes
  const bytes = representations.reduce(
    (sum, form) =>
      sum + form.body.length +
      form.rawHeaders.reduce((length, text) => length + text.length, form.headerText?.length ?? 0),
    0
  )
  return Math.ceil((overhead + bytes) * overheadFactor)
}

/** A strong tag of a body of some type. */
export function etagOf (contentType: string, body: Buffer): string {
  // By a call that leaves no object behind, which the collector alone could free.
  const digest = hash('sha256', Buffer.concat([Buffer.from(`${contentType}\n`), body]), 'base64url').slice(0, 27)
  return flattenString(`"${digest}"`)
}

function makeEncoded (entry: Entry, coding: Coding, body: Buffer): Representation {
  const etag = etagForCoding(entry, coding)
  const rawHeaders = rawHeadersOf(entry, body, etag, ['content-encoding', coding])
  return { body, etag, rawHeaders, headerText: printHeaders(rawHeaders) }
}

function rawHeadersOf (
  { contentType, perResponseHeaders }: Pick<Entry, 'contentType' | 'perResponseHeaders'>,
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
    ...perResponseHeaders
  ]
}

// A pooled or sliced buffer would keep its whole slab alive; a body of its own costs what it is counted as.
function copyBytes (body: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(body.length)
  body.copy(copy)
  return copy
}

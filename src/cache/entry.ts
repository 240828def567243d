import { hash } from 'node:crypto'
import { type Position } from '../api/position.js'
import { type Coding } from '../api/coding.js'
import { flat } from './flat.js'
import { type EventRange } from './page-index.js'
import { printed } from './printed.js'

/** One form of an entry's body, prepared once so that a hit only writes it out. */
export interface Form {
  readonly body: Buffer
  readonly etag: string
  /** All the header lines that belong to the answer in this form, flat: type, coding, length, tag, cursor, gas. */
  readonly lines: readonly string[]
  /** The same printed, but for the length; undefined where they cannot be. */
  readonly text: string | undefined
}

/** An answer as it is kept; it is itself the form without a coding. */
export interface Entry extends Form {
  readonly key: string
  readonly status: 200 | 404
  readonly contentType: string
  /** Lines such as the cursor, under every name that they are sent by. */
  readonly ownLines: readonly string[]
  /** The coded forms made so far; where a coding gains nothing, the entry's own form stands for it. */
  readonly coded: Readonly<Partial<Record<Coding, Form>>>
  /** The release that rendered it; undefined where it was not known (law 8). */
  readonly release: string | undefined
  /** When it stops being believed, on the clock of this process; undefined: never. */
  readonly expiresAtMs: number | undefined
  /** The block that it is; it answers for each of these versions. */
  readonly block: BlockRange | undefined
  /** The page of events that it is; its events may be given in other pages too. */
  readonly page: PageRange | undefined
  /** The lowest version that it tells of, where the read itself names none. */
  readonly lowestVersion: bigint | undefined
  /** The position that it was read at, where it was read at the head. */
  readonly readAt: Position | undefined
}

/** Which versions a block answers for, and where the index files it. */
export interface BlockRange {
  readonly blocks: string
  readonly first: bigint
  readonly last: bigint
}

/** Which events of a stream a page has, and what the index files it under. */
export interface PageRange extends EventRange {
  readonly stream: string
  /**
   * Where in the body each event begins, and where one after the last would; undefined where its events cannot be parts
   * of another page.
   */
  readonly offsets: Uint32Array | undefined
}

/** What an entry is made of. */
export type EntryParts =
  & Pick<Entry, 'key' | 'status' | 'contentType' | 'body' | 'ownLines' | 'release'>
  & Partial<Pick<Entry, 'expiresAtMs' | 'block' | 'page' | 'lowestVersion' | 'readAt'>>

// Measured as resident memory (bench/NOTES.md): the entry, its strings and array, the Buffer and its header, its slot
// in the LRU's tables, with what the allocator takes for them; and what of all that waits to be collected while a full
// cache makes room.
const entryOverheadBytes = 1800
const headroom = 1.25
const blockOverheadBytes = 200
const pageOverheadBytes = 500
const formOverheadBytes = 600

// One for all that have none, since most never do.
const none: Entry['coded'] = {}

/** Prepares an entry. */
export function makeEntry (parts: EntryParts): Entry {
  const { key, status, contentType, ownLines, release, expiresAtMs, block, page, lowestVersion, readAt } = parts
  const body = ownCopy(parts.body)
  const etag = tagOf(contentType, body)
  const lines = linesOf(parts, body, etag, [])
  // Each by its name: an object that is put together from others takes several times the memory.
  return {
    key,
    status,
    contentType,
    body,
    etag,
    lines,
    text: printed(lines),
    ownLines,
    coded: none,
    release,
    expiresAtMs,
    block,
    page,
    lowestVersion,
    readAt
  }
}

/** The same entry with one more form. */
export function withForm (entry: Entry, coding: Coding, body: Buffer): Entry {
  // Not the entry itself where nothing is gained, or it would live on behind what has become of it.
  const own = { body: entry.body, etag: entry.etag, lines: entry.lines, text: entry.text }
  const form = body.length < entry.body.length ? codedForm(entry, coding, ownCopy(body)) : own
  return { ...entry, coded: { ...entry.coded, [coding]: form } }
}

/** The tag of an entry's body in a coding: another form is another representation (RFC 9110, section 8.8.3.3). */
export function codedTag (entry: Form, coding: Coding): string {
  return flat(`${entry.etag.slice(0, -1)}-${coding}"`)
}

/** The memory that the process needs to keep an entry. */
export function costOf (entry: Entry): number {
  const forms = [entry, ...Object.values(entry.coded).filter(({ body }) => body !== entry.body)]
  const filed = (entry.block === undefined ? 0 : blockOverheadBytes) +
    (entry.page === undefined ? 0 : pageOverheadBytes + (entry.page.offsets?.byteLength ?? 0))
  const overhead = entryOverheadBytes + entry.key.length + filed + (forms.length - 1) * formOverheadBytes
  const bytes = forms.reduce(
    (sum, form) =>
      sum + form.body.length + form.lines.reduce((length, text) => length + text.length, form.text?.length ?? 0),
    0
  )
  return Math.ceil((overhead + bytes) * headroom)
}

/** A strong tag of a body of some type. */
export function tagOf (contentType: string, body: Buffer): string {
  // By a call that leaves no object behind, which the collector alone could free.
  const digest = hash('sha256', Buffer.concat([Buffer.from(`${contentType}\n`), body]), 'base64url').slice(0, 27)
  return flat(`"${digest}"`)
}

function codedForm (entry: Entry, coding: Coding, body: Buffer): Form {
  const etag = codedTag(entry, coding)
  const lines = linesOf(entry, body, etag, ['content-encoding', coding])
  return { body, etag, lines, text: printed(lines) }
}

function linesOf (
  { contentType, ownLines }: Pick<Entry, 'contentType' | 'ownLines'>,
  body: Buffer,
  etag: string,
  coding: string[]
): string[] {
  return ['content-type', contentType, ...coding, 'content-length', String(body.length), 'etag', etag, ...ownLines]
}

// A pooled or sliced buffer would keep its whole slab alive; a body of its own costs what it is counted as.
function ownCopy (body: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(body.length)
  body.copy(copy)
  return copy
}

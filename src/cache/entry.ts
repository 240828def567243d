import { createHash } from 'node:crypto'
import { type Position } from '../ledger/position.js'

/** An answer as it is kept: the body and all that belongs to it, prepared once so that a hit only writes it out. */
export interface Entry {
  readonly status: 200 | 404
  readonly body: Buffer
  readonly etag: string
  /** The header lines that belong to the answer, flat: type, length, tag, cursor, gas. */
  readonly lines: readonly string[]
  /** The same without those of the body, for a 304. */
  readonly linesWithoutBody: readonly string[]
  /** The position stamped on the answer that was kept: never shown again, but no hit may show an older one (law 4). */
  readonly readAt: Position
  /** The release that rendered it; undefined where it was not known (law 8). */
  readonly release: string | undefined
}

/** What an entry is made of. */
export interface EntryParts {
  readonly status: 200 | 404
  readonly contentType: string
  readonly body: Buffer
  /** Lines such as the cursor, under every name that they are sent by. */
  readonly ownLines: readonly string[]
  readonly readAt: Position
  readonly release: string | undefined
}

// Measured on Node 20 (bench/NOTES.md): the entry, its strings, lines and Buffer header, and its slot in the LRU's arrays.
const entryOverheadBytes = 1100

/** Prepares an entry. */
export function makeEntry (parts: EntryParts): Entry {
  const { status, contentType, ownLines, readAt, release } = parts
  // A pooled or sliced buffer would keep its whole slab alive; a body of its own costs what it is counted as.
  const body = Buffer.allocUnsafeSlow(parts.body.length)
  parts.body.copy(body)
  const etag = `"${createHash('sha256').update(contentType).update('\n').update(body).digest('base64url').slice(0, 27)}"`
  const linesWithoutBody = ['etag', etag, ...ownLines]
  const lines = ['content-type', contentType, 'content-length', String(body.length), ...linesWithoutBody]
  return { status, body, etag, lines, linesWithoutBody, readAt, release }
}

/** The memory that an entry costs under its key. */
export function costOf (key: string, entry: Entry): number {
  return entryOverheadBytes + key.length + entry.body.length
}

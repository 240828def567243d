import { createHash } from 'node:crypto'

/** An answer as it is kept: the body and all that belongs to it, prepared once so that a hit only writes it out. */
export interface Entry {
  readonly status: 200 | 404
  readonly body: Buffer
  readonly etag: string
  /** The header lines that belong to the answer, flat: those of the body (type and length) first, then tag, cursor, gas. */
  readonly lines: readonly string[]
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
  readonly release: string | undefined
}

// Type and length, name and value each.
const bodyLines = 4

// Measured (bench/NOTES.md): the entry, its strings and array, the Buffer and its header, its slot in the LRU's tables.
const entryOverheadBytes = 950

/** Prepares an entry. */
export function makeEntry ({ status, contentType, body, ownLines, release }: EntryParts): Entry {
  const etag = tagOf(contentType, body)
  return {
    status,
    body: ownCopy(body),
    etag,
    lines: ['content-type', contentType, 'content-length', String(body.length), 'etag', etag, ...ownLines],
    release
  }
}

/** What of an entry's lines stays when the body is left out, for a 304. */
export function linesWithoutBody (entry: Entry): string[] {
  return entry.lines.slice(bodyLines)
}

/** The memory that an entry costs under its key. */
export function costOf (key: string, { body, lines }: Entry): number {
  return entryOverheadBytes + key.length + body.length + lines.reduce((sum, text) => sum + text.length, 0)
}

// A pooled or sliced buffer would keep its whole slab alive; a body of its own costs what it is counted as.
function ownCopy (body: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(body.length)
  body.copy(copy)
  return copy
}

function tagOf (contentType: string, body: Buffer): string {
  const digest = createHash('sha256').update(contentType).update('\n').update(body).digest('base64url').slice(0, 27)
  // Through bytes, since a string put together from pieces keeps the pieces alive.
  return Buffer.from(`"${digest}"`).toString('latin1')
}

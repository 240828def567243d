import { createHash } from 'node:crypto'
import { type Accept } from './accept.js'
import { type Endpoint } from './endpoints.js'

/**
 * One canonical read: all that a node is asked, and so all that a body can depend on; and what a client wants of when
 * it was read and how its listing goes on.
 */
export interface Read {
  readonly endpoint: Endpoint
  readonly path: string
  /** Canonical parameters in the order of the endpoint's row, `ledger_version` apart. */
  readonly query: readonly (readonly [name: string, value: string])[]
  /** The ledger version asked for; undefined is a latest read. */
  readonly ledgerVersion: bigint | undefined
  /**
   * The version that the answer speaks of, asked for in the query or named by a path; no position below it may be
   * shown.
   */
  readonly requestedVersion: bigint | undefined
  /** Whether the version came in a cursor of varve's own: the cursor of the answer is to carry it on. */
  readonly isPinned: boolean
  /** The block asked for, where it is asked for by its height. */
  readonly height: bigint | undefined
  /**
   * Whether the answer alone tells if it is history or of the moment: a page may not be full yet, and a transaction not
   * committed.
   */
  readonly mayBeMoving: boolean
  /** The page of events asked for, where it starts at a given one. */
  readonly page: { readonly start: bigint, readonly limit: bigint } | undefined
  readonly accept: Accept
  readonly body: ReadBody | undefined
  /**
   * The least version that an answer of the moment must have been read at, where a client says so; no body depends on
   * it, so that it is in no key of what is kept.
   */
  readonly minVersion: bigint | undefined
}

/** What a read asks with in a body. */
export interface ReadBody {
  /** Its media type, which goes upstream with it. */
  readonly type: string
  /** What goes upstream: the client's own member order and number text, blanks dropped; bytes as they came. */
  readonly sent: string | Buffer
  /** What is keyed: one text for every spelling of the same question. */
  readonly canonical: string
}

/** The names under which answers to a read are kept. */
export interface ReadKeys {
  /** For a value, which all spellings share. */
  readonly value: string
  /** For a not-found, which echoes the client's own text and so belongs to equal texts alone. */
  readonly text: string
  /**
   * For blocks: what their entries and the index from version to block are filed under; no block answers for another
   * family.
   */
  readonly blockIndexKey: string | undefined
}

/** How long a read's answer can stay true: for ever, as a page of what grows, or not beyond the moment. */
export type ReadClass = 'immutable' | 'page' | 'moving'

// Beyond this what is read is digested, so that no request can make keys dear; of which chain and generation it is can
// always be told.
const maxNameLength = 500

/** The class of a read, as `explain` names it. */
export function classOf (read: Read): ReadClass {
  if (read.mayBeMoving) return read.endpoint.keyedBy === 'hash' ? 'immutable' : 'page'
  return read.requestedVersion === undefined && read.height === undefined ? 'moving' : 'immutable'
}

/**
 * Whether the release that a node runs shows in its answer (law 8): never in BCS, but for what one release does not
 * find and the next one does.
 */
export function isRendered (read: Read, status = 200): boolean {
  return (read.accept === 'json' || status === 404) && dependsOnRelease(read)
}

/** The same whatever the representation: what one release renders another may render otherwise. */
export function dependsOnRelease ({ endpoint: { renderedByRelease }, query }: Read): boolean {
  return typeof renderedByRelease === 'boolean' ? renderedByRelease : query.some(([name]) => name === renderedByRelease)
}

/** The path and query that go upstream. */
export function targetOf (read: Read): string {
  const query = read.query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  if (read.ledgerVersion !== undefined) query.unshift(`ledger_version=${read.ledgerVersion}`)
  return query.length === 0 ? read.path : `${read.path}?${query.join('&')}`
}

/** The keys of a read within one chain and one generation of it (law 7). */
export function keysOf (
  read: Read,
  chain: { readonly id: number | string, readonly generation: number | string }
): ReadKeys {
  const space = `${chain.id}.${chain.generation} ${read.accept}`
  const name = targetOf(read)
  const { body } = read
  if (body !== undefined) {
    return {
      value: `${space} ${shorten(`${name} ${body.canonical}`)}`,
      text: `${space} ${shorten(`${name} = ${bodyTextOf(body)}`)}`,
      blockIndexKey: undefined
    }
  }
  const blockIndexKey = isOfBlock(read) ? [space, 'blocks', ...read.query.map(([flag]) => flag)].join(' ') : undefined
  const key = blockIndexKey === undefined || read.height === undefined
    ? `${space} ${shorten(name)}`
    : blockKeyOf(blockIndexKey, read.height)
  return { value: key, text: key, blockIndexKey }
}

/** Whether a block is asked for: one entry answers for its height and for every version inside it. */
export function isOfBlock ({ endpoint: { keyedBy } }: Read): boolean {
  return keyedBy === 'block' || keyedBy === 'height'
}

/** The words of a body: bytes in hex behind their type. */
export function bodyTextOf ({ sent, canonical }: ReadBody): string {
  return typeof sent === 'string' ? sent : canonical
}

/** The key of a block: one for every version inside it. */
export function blockKeyOf (blocks: string, height: bigint | string): string {
  return `${blocks} ${height}`
}

/** The key of what a moving read was answered a moment ago. */
export function microCacheKeyOf (keys: ReadKeys): string {
  return `moment ${keys.text}`
}

/**
 * The key under which equal reads fly together. What moves may have been read too early for who asks for a version, and
 * one who cannot have it must not fail others.
 */
export function coalescingKeyOf (read: Read, key: string): string {
  return read.minVersion === undefined || (classOf(read) === 'immutable' && !read.mayBeMoving)
    ? key
    : `${key} from ${read.minVersion}`
}

/**
 * True if the path names the stream itself; a handle can get another one (docs/node-behaviour.md, "Event streams").
 */
export function namesStream ({ endpoint }: Read): boolean {
  return endpoint.name === 'events_by_creation_number'
}

/** What the pages of a stream are filed under, by its own path; by the path of a handle, what leads to its stream. */
export function streamIndexKeyOf (
  chain: { readonly id: number | string, readonly generation: number | string },
  path: string
): string {
  return `${chain.id}.${chain.generation} json ${shorten(path)}`
}

/** The key of a page of a stream: that of its read by creation number. */
export function pageKeyOf (stream: string, { start, limit }: NonNullable<Read['page']>): string {
  return `${stream}?start=${start}&limit=${limit}`
}

/** The events that a full page has, by their sequence numbers. */
export function eventRangeOf (
  { start, limit }: NonNullable<Read['page']>
): { readonly first: bigint, readonly last: bigint } {
  return { first: start, last: start + limit - 1n }
}

/** The same read at a version: what a latest read turns out to have been. */
export function atVersion (read: Read, ledgerVersion: bigint): Read {
  return { ...read, ledgerVersion, requestedVersion: ledgerVersion }
}

function shorten (name: string): string {
  return name.length <= maxNameLength ? name : `sha256 ${createHash('sha256').update(name).digest('base64url')}`
}

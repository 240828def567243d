import { createHash } from 'node:crypto'
import { type Accept } from './accept.js'
import { type Endpoint } from './endpoints.js'

/**
 * Canonical read: everything that is sent upstream and so is part of the key (law 1: what is keyed is what is sent),
 * and the minimum version and pinning.
 */
export interface Read {
  readonly endpoint: Endpoint
  readonly path: string
  /** Canonical parameters in the endpoint's order, without `ledger_version`. */
  readonly query: readonly (readonly [name: string, value: string])[]
  /** Ledger version in the query or in a pinned cursor; undefined if neither names one. */
  readonly ledgerVersion: bigint | undefined
  /** Version that the response is about, from the query or the path; no position below it may be sent. */
  readonly requestedVersion: bigint | undefined
  /** True if a pinned cursor named the version, so the response's cursor is pinned too. */
  readonly hasPinnedCursor: boolean
  /** Height of the requested block, if the path names a height. */
  readonly height: bigint | undefined
  /** True if only the response shows whether it is history: a page may be short, a transaction not committed. */
  readonly mayBeMoving: boolean
  /** Requested page of events, transactions of an account or auxiliary facts, if it has a start. */
  readonly page: { readonly start: bigint, readonly limit: bigint } | undefined
  readonly accept: Accept
  readonly body: RequestBody | undefined
  /** Lowest version that a moving response must have been read at; in no cache key, because no body depends on it. */
  readonly minVersion: bigint | undefined
}

/** Body of a read. */
export interface RequestBody {
  /** Media type, sent upstream. */
  readonly type: string
  /** Body sent upstream: JSON in the client's member order and number text without blanks, or bytes unchanged. */
  readonly sent: string | Buffer
  /** Text for the key, equal for all request variants. */
  readonly canonical: string
}

/** Cache keys of a read. */
export interface ReadKeys {
  /** Key of a 200, which all request variants share. */
  readonly value: string
  /** Key of a not-found, which quotes the client's text, so only equal texts share it. */
  readonly text: string
  /**
   * Family of entries that are valid for many versions: prefix of their keys, and name of their intervals in an index.
   * Blocks have one family for each set of flags; undefined for reads of one version.
   */
  readonly intervalFamily: string | undefined
}

/** Versions that an entry is valid for, both ends included, in its family: blocks, or one state read. */
export interface EntryInterval {
  readonly family: string
  readonly first: bigint
  readonly last: bigint
}

/** Classes of reads: stored without expiry, stored once a page is full, or micro-cached at most. */
export type ReadClass = 'immutable' | 'page' | 'moving'

// Shortens longer names to a digest, so no request makes keys expensive; the space stays readable.
const maxNameLength = 500

/** Returns the class of a read, as `explain` names it. */
export function classOf (read: Read): ReadClass {
  if (read.mayBeMoving) return read.endpoint.keyedBy === 'hash' ? 'immutable' : 'page'
  return read.requestedVersion === undefined && read.height === undefined ? 'moving' : 'immutable'
}

/**
 * Returns true if the release of an upstream can change the response (law 8: rendering can change, history cannot). BCS
 * changes only between a value and a not-found.
 */
export function isRenderedByRelease (read: Read, status = 200): boolean {
  return (read.accept === 'json' || status === 404) && dependsOnRelease(read)
}

/** Returns true if the release of an upstream can change the response in any representation. */
export function dependsOnRelease ({ endpoint: { renderedByRelease }, query }: Read): boolean {
  return typeof renderedByRelease === 'boolean' ? renderedByRelease : query.some(([name]) => name === renderedByRelease)
}

/** Returns the path and query sent upstream. */
export function targetOf (read: Read): string {
  const query = read.query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  if (read.ledgerVersion !== undefined) query.unshift(`ledger_version=${read.ledgerVersion}`)
  return query.length === 0 ? read.path : `${read.path}?${query.join('&')}`
}

/** Returns the cache keys of a read in a space (law 7: chains never mix). */
export function keysOf (
  read: Read,
  space: { readonly name: string }
): ReadKeys {
  const start = `${space.name} ${read.accept}`
  const name = targetOf(read)
  const { body } = read
  if (body !== undefined) {
    return {
      value: `${start} ${shorten(`${name} ${body.canonical}`)}`,
      text: `${start} ${shorten(`${name} = ${bodyToText(body)}`)}`,
      intervalFamily: undefined
    }
  }
  const blockIndexKey = isOfBlock(read) ? [start, 'blocks', ...read.query.map(([flag]) => flag)].join(' ') : undefined
  const key = blockIndexKey === undefined || read.height === undefined
    ? `${start} ${shorten(name)}`
    : intervalKeyOf(blockIndexKey, read.height)
  return { value: key, text: key, intervalFamily: blockIndexKey }
}

/**
 * Returns the family of all versions of a state read, which is the key of its latest read; undefined for reads whose
 * responses no write set can prove unchanged.
 */
export function stateFamilyOf (
  read: Read,
  space: { readonly name: string }
): string | undefined {
  return read.endpoint.dependsOn === undefined ? undefined : keysOf({ ...read, ledgerVersion: undefined }, space).value
}

/** Returns true if a read requests a block, whose one entry serves its height and every version inside. */
export function isOfBlock ({ endpoint: { keyedBy } }: Read): boolean {
  return keyedBy === 'block' || keyedBy === 'height'
}

/** Returns a body as text: JSON as sent, or bytes in hex behind their media type. */
export function bodyToText ({ sent, canonical }: RequestBody): string {
  return typeof sent === 'string' ? sent : canonical
}

/** Returns the key of an entry, the same for every version in its interval; blocks are numbered by height. */
export function intervalKeyOf (family: string, number: bigint | string): string {
  return `${family} ${number}`
}

/** Returns the family in the key of an entry that is valid for many versions. */
export function familyOfKey (key: string): string {
  return key.slice(0, key.lastIndexOf(' '))
}

/** Returns the key of a micro-cached response. */
export function microCacheKeyOf (keys: ReadKeys): string {
  return `moving ${keys.text}`
}

/**
 * Returns the key under which equal reads coalesce. Minimum versions separate reads that may move, because the error of
 * a client whose version is not reached must not reach other clients.
 */
export function coalescingKeyOf (read: Read, key: string): string {
  return read.minVersion === undefined || (classOf(read) === 'immutable' && !read.mayBeMoving)
    ? key
    : `${key} from ${read.minVersion}`
}

/**
 * Returns true if the path names the stream or the sender itself; a handle can lead to another stream later
 * (docs/node-behaviour.md, "Event streams").
 */
export function namesStream ({ endpoint }: Read): boolean {
  return endpoint.name === 'events_by_creation_number' || endpoint.keyedBy === 'sends'
}

/**
 * Returns which events, or transactions of a sender, a read requests: `from` a sequence number on, or the `last`;
 * undefined for other reads.
 */
export function eventPageStartOf ({ endpoint: { keyedBy }, query }: Read): 'from' | 'last' | undefined {
  return keyedBy !== 'page' && keyedBy !== 'sends'
    ? undefined
    : query.some(([name]) => name === 'start')
    ? 'from'
    : 'last'
}

/** Returns the limit that a read of a page states; undefined if it leaves the limit to the node. */
export function requestedLimitOf ({ query }: Read): number | undefined {
  const limit = query.find(([name]) => name === 'limit')?.[1]
  return limit === undefined ? undefined : Number(limit)
}

/** Returns the key of recorded facts about the events of a path (law 7: chains never mix). */
export function eventPathKeyOf (space: { readonly name: string }, path: string): string {
  return `${space.name} ${shorten(path)}`
}

/** Turns a latest read into the read at the version at which its response was read. */
export function atVersion (read: Read, ledgerVersion: bigint): Read {
  return { ...read, ledgerVersion, requestedVersion: ledgerVersion }
}

/**
 * Returns the account or table that the path in a key names; '' for a read that may depend on any account; undefined
 * for blocks, transactions and reads about the node. The space in the key may be missing.
 */
export function accountIn (key: string): string | undefined {
  const found = /^(?:moving )?\S* (?:json|bcs) \/v1\/(?:(?:accounts|tables)\/(0x[0-9a-f]{64})|view|experimental)/.exec(
    key
  )
  return found === null ? undefined : found[1] ?? ''
}

// Shortens a long name to a digest behind the account, which `accountIn` reads.
function shorten (name: string): string {
  if (name.length <= maxNameLength) return name
  const start = String(/^\/v1\/[a-z]+(?:\/0x[0-9a-f]{64})?/.exec(name))
  return `${start} sha256 ${createHash('sha256').update(name).digest('base64url')}`
}

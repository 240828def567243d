import { type Compressor } from '../cache/compressor.js'
import { codedTag, type Entry, tagOf } from '../cache/entry.js'
import { printed } from '../cache/printed.js'
import { type Answer, contentTypeOf, headerOf, type Rest } from '../api/answer.js'
import { codingsFor } from '../api/coding.js'
import { dependsOnRelease, type Read } from '../api/read.js'
import { type Refusal } from '../api/refusal.js'
import { type Head, HeadLines } from './head-lines.js'
import { heldTag } from './if-none-match.js'
import { type Outcome, cacheStatusOf, outcomeOfError, ownStatusOf, passedStatus } from './outcomes.js'
import { familiesOf, ownLines, ownValues, pinnedLines } from './own-lines.js'
import { type Parts } from './parts.js'
import { pinOf } from './pinning.js'
import { archivalLines } from '../api/pruning.js'
import { varyOf } from './vary.js'

/** An answer ready to be written: header lines flat, as Node writes them fastest. */
export interface Reply {
  readonly status: number
  readonly lines: readonly string[]
  /** The same lines as they go onto the wire, but for the length; undefined where each is to be printed by itself. */
  readonly text?: string | undefined
  readonly body: Buffer | undefined
  /** What follows the body as it comes from the node. */
  readonly rest?: Rest | undefined
}

/** What of a client's request decides in which form an answer goes out. */
export interface Wishes {
  readonly ifNoneMatch: string | undefined
  readonly acceptEncoding: string | undefined
}

/** What clients and CDNs are told about kept answers. */
export type DownstreamCacheControl = 'revalidate' | 'immutable' | 'off'

// What of a node's headers is handed on with an answer that is not kept: an allow-list, since Set-Cookie, Trailer and
// hop-by-hop names are not.
const handedOn = ['content-type', 'content-encoding', 'retry-after', 'www-authenticate']

// The same for a route that varve does not know, whose answer may be anything; no place to go, which would name the
// node's own address.
const passedOn = [
  ...handedOn,
  'content-length',
  'content-language',
  'content-disposition',
  'cache-control',
  'etag',
  'last-modified',
  'allow',
  'traceparent'
]

// Those of them that may stand in several lines; of any other the first counts, or the client would be left with two in
// one.
const lists = new Set(['content-encoding', 'www-authenticate', 'content-language', 'cache-control', 'vary', 'allow'])

/** Puts an outcome and the present position together (law 4: headers are the present, bodies are the past). */
export class Stamper {
  readonly #tracker: Parts['tracker']
  readonly #compressor: Compressor
  readonly #settings: Parts['settings']
  readonly #cacheControl: DownstreamCacheControl
  readonly #isForClientsAlone: boolean
  readonly #variesByOrigin: boolean
  readonly #heads: HeadLines

  constructor (
    parts: Pick<Parts, 'tracker' | 'compressor' | 'settings'>,
    cacheControl: DownstreamCacheControl,
    isForClientsAlone = false,
    variesByOrigin = false
  ) {
    this.#tracker = parts.tracker
    this.#compressor = parts.compressor
    this.#settings = parts.settings
    this.#cacheControl = cacheControl
    this.#isForClientsAlone = isForClientsAlone
    this.#variesByOrigin = variesByOrigin
    this.#heads = new HeadLines(parts.tracker, parts.settings.emit, variesByOrigin)
  }

  /** The reply to an answered read, or a 304 where the client has the body already. */
  reply (read: Read, outcome: Outcome, wishes: Wishes): Reply {
    const { position } = outcome
    const status = cacheStatusOf(outcome)
    const pin = pinOf(this.#settings, read, outcome)
    switch (outcome.name) {
      case 'hit_memory':
      case 'hit_redis':
        return this.#kept(
          outcome.entry,
          this.#heads.of(position, status, outcome.kind === 'moment' ? 'no-store' : this.#cacheControlOf(read)),
          wishes,
          pin
        )
      case 'miss':
      case 'collapsed': {
        const { answer, entry } = outcome.fetched
        if (entry === undefined) return this.#passed(answer, this.#heads.of(position, status, 'no-store'), wishes, pin)
        return this.#kept(entry, this.#heads.of(position, status, this.#cacheControlOf(read)), wishes, pin)
      }
      // A latest answer that was kept for its version is still a latest answer to this client.
      case 'forwarded':
      case 'observed':
        return this.#passed(outcome.fetched.answer, this.#heads.of(position, status, 'no-store'), wishes, pin)
    }
  }

  /**
   * The reply in the node's shape to what varve refuses; a known read carries the present position then too, and so
   * does what is not there yet.
   */
  refuse (refusal: Refusal, isKnownRead: boolean): Reply {
    const body = Buffer.from(refusal.body)
    const bearsPosition = isKnownRead || refusal.code === 'version_not_found'
    const status = ownStatusOf(outcomeOfError(refusal.status))
    const head = bearsPosition
      ? this.#heads.of(this.#tracker.position, status, 'no-store').lines
      : ['cache-status', status, 'cache-control', 'no-store', ...this.#varyLine(undefined)]
    return {
      status: refusal.status,
      lines: head.concat('content-type', 'application/json', 'content-length', String(body.length), refusal.lines),
      body
    }
  }

  /** The reply to what was passed on: the node's answer as it comes, its position under every name. */
  pass (answer: Answer): Reply {
    const family = answer.stamped?.family ?? this.#tracker.family
    const position = answer.stamped?.position
    const lines = [
      'cache-status',
      passedStatus,
      ...this.#heads.positionLines(position),
      ...ownLines(ownValues(answer, family), this.#settings.emit, family),
      ...archivalLines(answer)
    ]
    lines.push(...this.#varyLine(lineOf(answer, 'vary')))
    for (const name of passedOn) {
      const value = lineOf(answer, name)
      if (name === 'cache-control') {
        lines.push(name, this.#isForClientsAlone ? 'private, no-store' : value ?? 'no-store')
      } else if (value !== undefined && (name !== 'content-length' || answer.status !== 204)) lines.push(name, value)
    }
    return { status: answer.status, lines, body: answer.body, rest: answer.rest }
  }

  /** The prefixes of the names that positions are sent under. */
  get families (): readonly string[] {
    return familiesOf(this.#settings.emit, this.#tracker.family)
  }

  #varyLine (names: string | undefined): readonly string[] {
    const vary = varyOf(names, this.#variesByOrigin)
    return vary === undefined ? [] : ['vary', vary]
  }

  #kept (entry: Entry, head: Head, { ifNoneMatch, acceptEncoding }: Wishes, pin: bigint | undefined): Reply {
    const codings = codingsFor(acceptEncoding)
    const form = this.#compressor.formOf(entry, codings)
    // A client may hold the form that was there when it asked before.
    const tags = (): string[] => [form.etag, entry.etag, ...codings.map(coding => codedTag(entry, coding))]
    const held = entry.status === 200 ? heldTag(ifNoneMatch, tags) : undefined
    if (held !== undefined) {
      return { status: 304, lines: head.lines.concat('etag', held, pinnedLines(entry.ownLines, pin)), body: undefined }
    }
    // An entry answers reads with a pinned cursor and without, so that only the latter's text is printed once for all.
    const lines = pinnedLines(form.lines, pin)
    const formText = lines === form.lines ? form.text : printed(lines)
    const text = head.text === undefined || formText === undefined ? undefined : head.text + formText
    return { status: entry.status, lines: head.lines.concat(lines), text, body: form.body }
  }

  #passed (answer: Answer, head: Head, { ifNoneMatch }: Wishes, pin: bigint | undefined): Reply {
    const { family } = this.#tracker
    const own = pinnedLines(ownLines(ownValues(answer, family), this.#settings.emit, family), pin)
    const lines = head.lines.concat(own)
    const etag = answer.status === 200 && answer.rest === undefined
      ? tagOf(contentTypeOf(answer), answer.body)
      : undefined
    if (etag !== undefined) lines.push('etag', etag)
    if (etag !== undefined && heldTag(ifNoneMatch, () => [etag]) !== undefined) {
      return { status: 304, lines, body: undefined }
    }
    for (const name of handedOn) {
      const value = lineOf(answer, name)
      if (value !== undefined) lines.push(name, value)
    }
    if (answer.status === 410) lines.push(...archivalLines(answer))
    const length = answer.rest === undefined ? String(answer.body.length) : lineOf(answer, 'content-length')
    if (length !== undefined) lines.push('content-length', length)
    return { status: answer.status, lines, body: answer.body, rest: answer.rest }
  }

  // A cache before varve would hand on to anybody what only clients with a key may have, unless it is told not to.
  #cacheControlOf (read: Read): string | undefined {
    switch (this.#cacheControl) {
      case 'off':
        return this.#isForClientsAlone ? 'private' : undefined
      case 'revalidate':
        return this.#isForClientsAlone ? 'private, no-cache' : 'no-cache'
      case 'immutable':
        return `${this.#isForClientsAlone ? 'private' : 'public'}, ${
          isForEver(read) ? 'max-age=31536000, immutable' : 'max-age=86400'
        }`
    }
  }
}

function lineOf (answer: Answer, name: string): string | undefined {
  const value = answer.headers[name]
  return Array.isArray(value) && !lists.has(name) ? value[0] : headerOf(answer, name)
}

// What a release renders may be rendered otherwise by the next, as what a view reckons may, and the path of a stream
// can come to mean another one.
function isForEver (read: Read): boolean {
  return !read.isOpen && !dependsOnRelease(read) && read.endpoint.takesBody !== 'view'
}

import { type Entry, linesWithoutBody } from '../cache/entry.js'
import { type Position, positionLines, specificationFamily } from '../ledger/position.js'
import { type Answer, headerOf } from '../reads/answer.js'
import { type Read } from '../reads/read.js'
import { type Refusal } from '../reads/refusal.js'
import { type Outcome, cacheStatusOf, refusedStatus } from './outcomes.js'
import { familiesOf, ownLines } from './own-lines.js'
import { type Parts } from './parts.js'

/** An answer ready to be written: header lines flat, as Node writes them fastest. */
export interface Reply {
  readonly status: number
  readonly lines: string[]
  readonly body: Buffer | undefined
}

/** What clients and CDNs are told about kept answers. */
export type DownstreamCacheControl = 'revalidate' | 'immutable' | 'off'

// What of a node's headers is handed on with an answer that is not kept: an allow-list, since Set-Cookie, Trailer and hop-by-hop names are not.
const handedOn = ['content-type', 'content-encoding', 'retry-after', 'www-authenticate']

const vary = 'Accept, Accept-Encoding'

/** Puts an outcome and the present position together (law 4: headers are the present, bodies are the past). */
export class Stamper {
  readonly #tracker: Parts['tracker']
  readonly #emit: Parts['settings']['emit']
  readonly #cacheControl: DownstreamCacheControl
  #stamped: { position: Position, family: string | undefined, lines: readonly string[] } | undefined

  constructor (parts: Pick<Parts, 'tracker' | 'settings'>, cacheControl: DownstreamCacheControl) {
    this.#tracker = parts.tracker
    this.#emit = parts.settings.emit
    this.#cacheControl = cacheControl
  }

  /** The reply to an answered read, or a 304 where the client has the body already. */
  reply (read: Read, outcome: Outcome, ifNoneMatch: string | undefined): Reply {
    const lines = ['cache-status', cacheStatusOf(outcome), 'vary', vary, ...this.#positionLines(outcome.position)]
    if (outcome.name === 'hit_memory') return this.#kept(read, outcome.entry, lines, ifNoneMatch)
    const { entry, answer } = outcome.fetched
    // A latest answer that was kept for its version is still a latest answer to this client.
    return entry === undefined || outcome.name === 'forwarded' ? this.#passed(answer, lines) : this.#kept(read, entry, lines, ifNoneMatch)
  }

  /** The reply in the node's shape to what varve refuses; a known read carries the present position then too. */
  refuse (refusal: Refusal, isKnownRead: boolean): Reply {
    const body = Buffer.from(refusal.body)
    const lines = ['cache-status', refusedStatus, 'content-type', 'application/json', 'content-length', String(body.length), 'cache-control', 'no-store', ...refusal.lines]
    if (isKnownRead) lines.push('vary', vary, ...this.#positionLines(this.#tracker.position))
    return { status: refusal.status, lines, body }
  }

  #kept (read: Read, entry: Entry, lines: string[], ifNoneMatch: string | undefined): Reply {
    lines.push(...this.#cacheControlLines(read))
    if (entry.status === 200 && matches(ifNoneMatch, entry.etag)) return { status: 304, lines: [...lines, ...linesWithoutBody(entry)], body: undefined }
    return { status: entry.status, lines: [...lines, ...entry.lines], body: entry.body }
  }

  #passed (answer: Answer, lines: string[]): Reply {
    for (const name of handedOn) {
      const value = headerOf(answer, name)
      if (value !== undefined) lines.push(name, value)
    }
    lines.push('content-length', String(answer.body.length), 'cache-control', 'no-store', ...ownLines(answer, this.#emit, this.#tracker.family))
    return { status: answer.status, lines, body: answer.body }
  }

  // Rebuilt once per position, not once per answer.
  #positionLines (position: Position | undefined): readonly string[] {
    if (position === undefined) return []
    const { family } = this.#tracker
    if (this.#stamped?.position !== position || this.#stamped.family !== family) {
      const lines = familiesOf(this.#emit, family).flatMap(prefix => {
        const named = positionLines(position, prefix)
        return prefix === specificationFamily ? named.map((text, at) => at % 2 === 0 ? text.toUpperCase() : text) : named
      })
      this.#stamped = { position, family, lines }
    }
    return this.#stamped.lines
  }

  #cacheControlLines (read: Read): string[] {
    switch (this.#cacheControl) {
      case 'off': return []
      case 'revalidate': return ['cache-control', 'no-cache']
      // What a release renders may be rendered otherwise by the next, so it is for ever only where no release shows.
      case 'immutable': return ['cache-control', read.endpoint.renderedByRelease ? 'public, max-age=86400' : 'public, max-age=31536000, immutable']
    }
  }
}

/** Weak comparison (RFC 9110, section 13.1.2). */
function matches (ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.trim() === '*' || ifNoneMatch.split(',').some(tag => tag.trim().replace(/^W\//, '') === etag)
}

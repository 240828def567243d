import { createHash } from 'node:crypto'
import { isRendered, keysOf, type Read, targetOf, bodyTextOf } from '../../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../../src/api/read-request.js'
import { ErrorResponse } from '../../../src/api/error-response.js'
import { type SandboxResponse } from '../../../sandbox/response.js'
import { headerOf, type RawRequest } from './raw-request.js'

const digestOf = (...parts: (string | Buffer)[]): string => {
  const digest = createHash('sha1')
  for (const part of parts) digest.update(part).update('\n')
  return digest.digest('base64')
}

/** What varve makes of a request; undefined for what it refuses or does not know. */
export function parsedReadOf (sent: RawRequest): Read | undefined {
  try {
    const match = matchEndpoint(sent.target, sent.method)
    if (match === undefined) return undefined
    const request = {
      method: sent.method,
      accept: headerOf(sent, 'accept'),
      contentType: headerOf(sent, 'content-type'),
      body: Buffer.from(sent.body ?? '', 'latin1'),
      minVersion: headerOf(sent, 'x-varve-min-ledger-version')
    }
    return readRequest(match, request, { eventsDefault: 25 })
  } catch (error) {
    if (error instanceof ErrorResponse) return undefined
    throw error
  }
}

/** Whether varve knows the route of a request. */
export const isKnownEndpoint = ({ target, method }: RawRequest): boolean => matchEndpoint(target, method) !== undefined

/** What was seen so far, so that no two answers can be mixed up. */
export class SeenResponses {
  readonly #tags = new Map<string, string>()
  readonly #keys = new Map<string, { readonly answer: string, readonly sent: RawRequest }>()

  /** A tag stands for one body of one type in one coding, always. */
  recordEtag (etag: string, type: string, coding: string, body: Buffer): string | undefined {
    const stands = digestOf(type, coding, body)
    const before = this.#tags.get(etag)
    if (before !== undefined && before !== stands) return `the ETag ${etag} stands for two answers`
    this.#tags.set(etag, stands)
    return undefined
  }

  /** Whether a tag was seen on this very body in some coding; undefined for one that was never seen. */
  isEtagOf (etag: string, type: string, body: Buffer): boolean | undefined {
    const stands = this.#tags.get(etag)
    return stands === undefined ? undefined : ['', 'br', 'gzip'].some(coding => digestOf(type, coding, body) === stands)
  }

  /** What the node says of history for a request; two that it answers differently must not have one key. */
  recordKey (
    sent: RawRequest,
    read: Read,
    { status, body, headers }: SandboxResponse,
    release: string
  ): string | undefined {
    const keys = keysOf(read, { id: 4, generation: 1 })
    const cursor = headers.find(([name]) => name === 'x-aptos-cursor')?.[1] ?? ''
    const key = `${status === 200 ? keys.value : keys.text} ${isRendered(read) ? release : ''}`
    const answer = digestOf(String(status), cursor, body)
    const before = this.#keys.get(key)
    if (before !== undefined && before.answer !== answer) {
      return `${JSON.stringify(before.sent)} is answered otherwise by the node, and has the same key`
    }
    this.#keys.set(key, { answer, sent })
    return undefined
  }
}

/** Whether the answer to a read is history: the same whenever it is asked for. A list may end with the ledger. */
export const isHistoryRead = (read: Read, head: bigint): boolean =>
  !read.mayBeMoving && read.requestedVersion !== undefined && read.requestedVersion <= head

/** How a read goes upstream, for who looks into a fault. */
export const upstreamLineOf = (read: Read): string =>
  `${read.endpoint.method} ${targetOf(read)} ${read.body === undefined ? '' : bodyTextOf(read.body)}`

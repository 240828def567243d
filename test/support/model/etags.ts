import { createHash } from 'node:crypto'
import { isRenderedByRelease, keysOf, type Read, targetOf, bodyToText } from '../../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../../src/api/read-request.js'
import { ErrorResponse } from '../../../src/api/error-response.js'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { headerOf, type ModelRequest } from '../model/request.js'

const digestOf = (...parts: (string | Buffer)[]): string => {
  const digest = createHash('sha1')
  for (const part of parts) digest.update(part).update('\n')
  return digest.digest('base64')
}

/** Returns varve's read of a request; undefined if it is rejected or unknown. */
export function parsedReadOf (sent: ModelRequest): Read | undefined {
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
    return readRequest(match, request)
  } catch (error) {
    if (error instanceof ErrorResponse) return undefined
    throw error
  }
}

/** True if varve knows the endpoint of a request. */
export const isKnownEndpoint = ({ target, method }: ModelRequest): boolean =>
  matchEndpoint(target, method) !== undefined

/** Responses seen so far, to detect mix-ups. */
export class SeenResponses {
  readonly #tags = new Map<string, string>()
  readonly #keys = new Map<string, { readonly digest: string, readonly sent: ModelRequest }>()

  /** Records an ETag; returns an error if it stands for two bodies, types or codings. */
  recordEtag (etag: string, type: string, coding: string, body: Buffer): string | undefined {
    const stands = digestOf(type, coding, body)
    const before = this.#tags.get(etag)
    if (before !== undefined && before !== stands) return `the ETag ${etag} stands for two responses`
    this.#tags.set(etag, stands)
    return undefined
  }

  /** True if an ETag was seen with this body in some coding; undefined if it was never seen. */
  isEtagOf (etag: string, type: string, body: Buffer): boolean | undefined {
    const stands = this.#tags.get(etag)
    return stands === undefined ? undefined : ['', 'br', 'gzip'].some(coding => digestOf(type, coding, body) === stands)
  }

  /** Records the upstream's history response under varve's key; two different responses must not share one. */
  recordKey (
    sent: ModelRequest,
    read: Read,
    { status, body, headers }: SandboxResponse,
    release: string
  ): string | undefined {
    const keys = keysOf(read, { id: 4, generation: 1 })
    const cursor = headers.find(([name]) => name === 'x-aptos-cursor')?.[1] ?? ''
    const key = `${status === 200 ? keys.value : keys.text} ${isRenderedByRelease(read) ? release : ''}`
    const digest = digestOf(String(status), cursor, body)
    const before = this.#keys.get(key)
    if (before !== undefined && before.digest !== digest) {
      return `${JSON.stringify(before.sent)} gets another response from the upstream, and has the same key`
    }
    this.#keys.set(key, { digest, sent })
    return undefined
  }
}

/** True if the response to a read never changes. A list may end at the head. */
export const isHistoryRead = (read: Read, head: bigint): boolean =>
  !read.mayBeMoving && read.requestedVersion !== undefined && read.requestedVersion <= head

/** Returns the upstream form of a read, to investigate a fault. */
export const upstreamLineOf = (read: Read): string =>
  `${read.endpoint.method} ${targetOf(read)} ${read.body === undefined ? '' : bodyToText(read.body)}`

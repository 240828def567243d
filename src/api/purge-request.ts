import { readAddress } from './address.js'
import { type JsonObject, readObject } from './strict-json-object.js'
import { matchEndpoint, readRequest } from './read-request.js'
import { type Read, targetOf, bodyToText } from './read.js'
import { invalidInputError, type ErrorResponse } from './error-response.js'
import { bodyFromText } from './request-body.js'

/** Scope of a purge: everything, what depends on an account, or one read as a client would send it. */
export type PurgeRequest = { readonly all: true } | PartialPurge

/** Scope of a purge that leaves the space as it is; an account has all its digits. */
export type PartialPurge =
  & { readonly all: false }
  & ({ readonly account: string } | { readonly account?: never, readonly read: Read })

const expected = 'expected {"method", "url", "body"} as a client would send it, {"account": "0x..."} or {"all": true}'

/** Encodes a purge for other processes. */
export function encodePurge (purge: PartialPurge): Buffer {
  return purge.account === undefined
    ? encodePurgeRequest(purge.read)
    : Buffer.from(JSON.stringify({ account: purge.account }))
}

/** Encodes the purge of a read for other processes. */
export function encodePurgeRequest (read: Read): Buffer {
  return Buffer.from(
    JSON.stringify({ method: read.endpoint.method, url: targetOf(read), body: read.body && bodyToText(read.body) })
  )
}

/** Request that a person or a process names in JSON. */
export interface NamedRequest {
  readonly method: string
  readonly url: string
  readonly body?: string | undefined
}

/** Reads method, URL and body of a named request; undefined if any of them has the wrong type. */
export function namedRequestIn (object: JsonObject): NamedRequest | undefined {
  const url = object.stringOf('url')
  const method = object.textOf('method') === undefined ? 'GET' : object.stringOf('method')
  // Takes an inner body unchanged, because keys of not-found responses contain its exact text.
  return url === undefined || method === undefined
    ? undefined
    : { method, url, body: object.stringOf('body') ?? object.textOf('body') }
}

/** Reads the body of a purge; throws an ErrorResponse if it is not exactly one scope. */
export function readPurge (bytes: Buffer): PurgeRequest {
  const wanted = readObject(bytes)
  if (wanted?.hasOnly(['all']) === true && wanted.textOf('all') === 'true') return { all: true }
  if (wanted?.hasOnly(['account']) === true) {
    const digits = readAddress(wanted.stringOf('account') ?? '')
    if (digits === undefined) throw invalidInputError('`account` is no address')
    return { all: false, account: `0x${digits}` }
  }
  const named = wanted?.hasOnly(['method', 'url', 'body']) === true ? namedRequestIn(wanted) : undefined
  if (named === undefined) throw invalidInputError(expected)
  const { method, url, body = '' } = named
  const match = matchEndpoint(url, method)
  if (match === undefined) throw invalidInputError('`url` is not the URL of a cacheable read')
  try {
    return { all: false, read: readRequest(match, { method, accept: undefined, ...bodyFromText(body) }) }
  } catch (error) {
    // Reports 400 for every error, because the inner request is wrong, not the purge's own method or type.
    throw invalidInputError((error as ErrorResponse).message)
  }
}

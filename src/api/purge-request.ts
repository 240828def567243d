import { readObject } from './strict-json-object.js'
import { matchEndpoint, readRequest } from './read-request.js'
import { type Read, targetOf, bodyToText } from './read.js'
import { invalidInputError, type ErrorResponse } from './error-response.js'
import { bodyFromText } from './request-body.js'

/** Scope of a purge: everything, or one read as a client would send it. */
export type PurgeRequest = { readonly all: true } | { readonly all: false, readonly read: Read }

const expected = 'expected {"method", "url", "body"} as a client would send it, or {"all": true}'
const knownMembers = ['method', 'url', 'body', 'all']

/** Encodes the purge of a read for other processes. */
export function encodePurgeRequest (read: Read): Buffer {
  return Buffer.from(
    JSON.stringify({ method: read.endpoint.method, url: targetOf(read), body: read.body && bodyToText(read.body) })
  )
}

/** Reads the body of a purge; throws an ErrorResponse if it is not exactly one scope. */
export function readPurge (bytes: Buffer): PurgeRequest {
  const wanted = readObject(bytes)
  if (wanted === undefined || wanted.size !== knownMembers.filter(name => wanted.textOf(name) !== undefined).length) {
    throw invalidInputError(expected)
  }
  if (wanted.textOf('all') === 'true' && wanted.size === 1) return { all: true }
  const url = wanted.stringOf('url')
  const method = wanted.textOf('method') === undefined ? 'GET' : wanted.stringOf('method')
  if (wanted.textOf('all') !== undefined || url === undefined || method === undefined) throw invalidInputError(expected)
  const match = matchEndpoint(url, method)
  if (match === undefined) throw invalidInputError('`url` is not the URL of a cacheable read')
  // Takes the inner body unchanged, because keys of not-found responses contain its exact text.
  const text = wanted.stringOf('body') ?? wanted.textOf('body') ?? ''
  const request = { method, accept: undefined, ...bodyFromText(text) }
  try {
    return { all: false, read: readRequest(match, request) }
  } catch (error) {
    // Reports 400 for every error, because the inner request is wrong, not the purge's own method or type.
    throw invalidInputError((error as ErrorResponse).message)
  }
}

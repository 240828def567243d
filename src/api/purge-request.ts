import { readObject } from './json-object.js'
import { matchEndpoint, type NodeDefaults, readRequest } from './read-request.js'
import { type Read, targetOf, bodyTextOf } from './read.js'
import { invalidInputError, type ErrorResponse } from './error-response.js'
import { bodyFromText } from './request-body.js'

/** What an operator wants forgotten: everything, or one read as a client would send it. */
export type PurgeRequest = { readonly all: true } | { readonly all: false, readonly read: Read }

const expected = 'expected {"method", "url", "body"} as a client would send it, or {"all": true}'
const knownMembers = ['method', 'url', 'body', 'all']

/** A purge of a read, to be told to another process. */
export function encodePurge (read: Read): Buffer {
  return Buffer.from(
    JSON.stringify({ method: read.endpoint.method, url: targetOf(read), body: read.body && bodyTextOf(read.body) })
  )
}

/** Reads the body of a purge; refuses what cannot be meant. */
export function readPurge (bytes: Buffer, defaults: NodeDefaults): PurgeRequest {
  const wanted = readObject(bytes)
  if (wanted === undefined || wanted.size !== knownMembers.filter(name => wanted.textOf(name) !== undefined).length) {
    throw invalidInputError(expected)
  }
  if (wanted.textOf('all') === 'true' && wanted.size === 1) return { all: true }
  const url = wanted.stringOf('url')
  const method = wanted.textOf('method') === undefined ? 'GET' : wanted.stringOf('method')
  if (wanted.textOf('all') !== undefined || url === undefined || method === undefined) throw invalidInputError(expected)
  const match = matchEndpoint(url, method)
  if (match === undefined) throw invalidInputError('`url` names no read that is kept')
  // A body within the body is taken to the letter, since that is how the answers that quote it are kept.
  const text = wanted.stringOf('body') ?? wanted.textOf('body') ?? ''
  const request = { method, accept: undefined, ...bodyFromText(text) }
  try {
    return { all: false, read: readRequest(match, request, defaults) }
  } catch (error) {
    // Whatever a client would be told of it, here it is a value within the body that is wrong, not the purge's own
    // method.
    throw invalidInputError((error as ErrorResponse).message)
  }
}

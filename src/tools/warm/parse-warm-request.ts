import { readObject } from '../../api/strict-json-object.js'
import { classOf } from '../../api/read.js'
import { matchEndpoint, readRequest } from '../../api/read-request.js'
import { ErrorResponse } from '../../api/error-response.js'
import { bodyFromText } from '../../api/request-body.js'
import { type WarmRequest } from './warm-client.js'

/** Parsed line: a cacheable read, a read that is not cacheable, a blank line, or no request. */
export type ParsedWarmRequest = WarmRequest | 'not cacheable' | 'blank' | 'unreadable'

const members = ['method', 'url', 'body', 'accept']

/** Parses a path, or a JSON request with the members of a purge and `accept`. */
export function parseWarmRequest (line: string): ParsedWarmRequest {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return 'blank'
  const request = /^\/\S*$/.test(text) ? { method: 'GET', url: text } : requestIn(text)
  return request === undefined ? 'unreadable' : storable(request)
}

interface LoggedRequest {
  readonly method: string
  readonly url: string
  readonly body?: string | undefined
  readonly accept?: string | undefined
}

function requestIn (text: string): LoggedRequest | undefined {
  const object = readObject(Buffer.from(text))
  if (object === undefined || object.size !== members.filter(name => object.textOf(name) !== undefined).length) {
    return undefined
  }
  const [url, accept] = [object.stringOf('url'), object.stringOf('accept')]
  const method = object.textOf('method') === undefined ? 'GET' : object.stringOf('method')
  const isAcceptWrong = object.textOf('accept') !== undefined && !/^[ -~]+$/.test(accept ?? '')
  if (url === undefined || method === undefined || isAcceptWrong) return undefined
  // A body inside the line must not lose digits (law 2: bytes are sacred).
  return { method, url, body: object.stringOf('body') ?? object.textOf('body'), accept }
}

/** Accepts only cacheable reads, because a file may contain writes, and latest reads warm nothing. */
function storable ({ method, url, body, accept }: LoggedRequest): ParsedWarmRequest {
  try {
    const match = matchEndpoint(url, method)
    if (match === undefined) return 'not cacheable'
    const read = readRequest(match, { method, accept, ...bodyFromText(body ?? '') })
    return classOf(read) === 'moving'
      ? 'not cacheable'
      : {
        method: read.endpoint.method,
        target: match.target,
        body: read.endpoint.method === 'POST' ? body : undefined,
        accept
      }
  } catch (error) {
    if (error instanceof ErrorResponse) return 'not cacheable'
    throw error
  }
}

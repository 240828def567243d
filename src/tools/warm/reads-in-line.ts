import { classOf } from '../../api/read.js'
import { matchEndpoint, readRequest } from '../../api/read-request.js'
import { Refusal } from '../../api/refusal.js'
import { bodyInWords } from '../../api/request-body.js'
import { type Wanted } from './asking.js'

/** A line of a file: a read that can be kept, one that cannot, nothing at all, or what is no request. */
export type InLine = Wanted | 'not kept' | 'blank' | 'unreadable'

// Whatever a page has whose limit is left out: what a read is does not hang on it.
const defaults = { eventsDefault: 25 }

/** Reads a line: METHOD URL [BODY], an access log of nginx in its common forms, or one of Caddy. */
export function readInLine (line: string): InLine {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return 'blank'
  const request = inCaddy(text) ?? inQuotes(text) ?? inPlain(text)
  return request === undefined ? 'unreadable' : keepable(request)
}

interface Request {
  readonly method: string
  readonly url: string
  readonly body?: string | undefined
  readonly accept?: string | undefined
}

function inPlain (text: string): Request | undefined {
  const [, method, url, body] = /^([A-Za-z]+)\s+(\S+)(?:\s+(.+))?$/s.exec(text) ?? []
  return method === undefined || url === undefined || !/^(?:\/|https?:\/\/)/i.test(url)
    ? undefined
    : { method: method.toUpperCase(), url, body }
}

// What would end the quotes, or is not ASCII, stands there as \x22.
function inQuotes (text: string): Request | undefined {
  const [, method, url] = /"([A-Z]+) ([^" ]+) HTTP\/[0-9.]+"/.exec(text) ?? []
  return method === undefined || url === undefined
    ? undefined
    : { method, url: url.replace(/\\x([0-9A-F]{2})/gi, '%$1') }
}

// Before its object Caddy writes words when its log is for people. In nginx's JSON the request is a text, as between
// other quotes.
function inCaddy (text: string): Request | undefined {
  const [object] = /(?:^|handled request\s+)(\{.*)$/s.exec(text)?.slice(1) ?? []
  if (object === undefined) return undefined
  try {
    const { request } = JSON.parse(object) as {
      request?: { method?: unknown, uri?: unknown, headers?: Record<string, unknown> }
    }
    if (typeof request?.method !== 'string' || typeof request.uri !== 'string') return undefined
    const accept = request.headers?.['Accept']
    return { method: request.method, url: request.uri, ...(Array.isArray(accept) && { accept: accept.join(', ') }) }
  } catch {
    return undefined
  }
}

/**
 * Nothing is sent that varve does not know for a read which can be kept: a log may hold writes, and what is of the
 * moment warms nothing.
 */
function keepable ({ method, url, body, accept }: Request): InLine {
  try {
    const match = matchEndpoint(url, method)
    if (match === undefined) return 'not kept'
    const read = readRequest(match, { method, accept, ...bodyInWords(body ?? '') }, defaults)
    return classOf(read) === 'moving'
      ? 'not kept'
      : {
        method: read.endpoint.method,
        target: match.target,
        body: read.endpoint.method === 'POST' ? body : undefined,
        accept
      }
  } catch (error) {
    if (error instanceof Refusal) return 'not kept'
    throw error
  }
}

import { type IncomingHttpHeaders } from 'node:http'
import { type ErrorResponse, webFrameworkError } from '../api/error-response.js'
import { requestIdHeader } from './http-exchange.js'

/** Origins whose pages may read responses: any, or those listed. */
export type AllowedOrigins = '*' | readonly string[]

// Rejects a space, because Node joins repeated Origin lines with comma and space.
const oneOrigin = /^[\x21-\x7e]{1,512}$/

// Matches field names (RFC 9110, section 5.6.2), commas and white space, the only text that is echoed.
const headerNames = /^[!#$%&'*+.^_`|~0-9A-Za-z, \t-]*$/

// Headers that are not listed: pages may read some by default (Fetch, section 3.3.3), and have no use for the others.
const notExposed = new Set([
  'allow',
  'cache-control',
  'content-encoding',
  'content-language',
  'content-length',
  'content-type',
  'expires',
  'last-modified',
  'pragma',
  'vary'
])

/** Allows other origins as nodes do, and exposes headers, which nodes do not: docs/node-behaviour.md, "CORS". */
export class Cors {
  readonly #origins: '*' | ReadonlySet<string>
  // Exposed names by list of headers, which memoised responses share.
  readonly #exposed = new WeakMap<readonly string[], string>()

  constructor (origins: AllowedOrigins) {
    this.#origins = origins === '*' ? origins : new Set(origins)
  }

  /** Returns true if pages of this Origin may read responses. */
  isAllowedOrigin (origin: string | undefined): origin is string {
    return isOneOrigin(origin) && (this.#origins === '*' || this.#origins.has(origin))
  }

  /** True if CORS headers depend on Origin. Every response then names Origin in Vary, even if the request had none. */
  get dependsOnOrigin (): boolean {
    return this.#origins === '*' || this.#origins.size > 0
  }

  /** Returns the CORS headers for a response whose headers are names and values in turn; the caller adds Vary. */
  headersFor (origin: string | undefined, rawHeaders: readonly string[]): readonly string[] {
    return this.isAllowedOrigin(origin)
      ? [...originHeaders(origin), 'access-control-expose-headers', this.#exposedNames(rawHeaders)]
      : []
  }

  /** Returns true if an OPTIONS request with these headers is a preflight. */
  isPreflight ({ origin, 'access-control-request-method': method }: IncomingHttpHeaders): boolean {
    return isOneOrigin(origin) && method !== undefined
  }

  /**
   * Returns the header lines that grant a preflight; undefined if the request is none. Throws if the preflight is
   * rejected.
   */
  preflight (headers: IncomingHttpHeaders): readonly string[] | undefined {
    const { origin, 'access-control-request-method': method, 'access-control-request-headers': names = '' } = headers
    if (!isOneOrigin(origin) || method === undefined) return undefined
    if (!this.isAllowedOrigin(origin)) throw notAllowedError('origin')
    if (method !== 'GET' && method !== 'POST') throw notAllowedError('request-method')
    if (!headerNames.test(names)) throw notAllowedError('request-headers')
    return [
      ...originHeaders(origin),
      'access-control-allow-methods',
      'GET,POST',
      // Answers `*` if the browser names no headers, as the nodes' web framework does.
      'access-control-allow-headers',
      names === '' ? '*' : names,
      'access-control-max-age',
      '86400',
      'vary',
      'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
      'content-length',
      '0'
    ]
  }

  #exposedNames (rawHeaders: readonly string[]): string {
    const known = this.#exposed.get(rawHeaders)
    if (known !== undefined) return known
    const names = rawHeaders.filter((_line, at) => at % 2 === 0).map(name => name.toLowerCase())
    const exposed = [...new Set([...names, requestIdHeader])].filter(name => !notExposed.has(name)).join(', ')
    this.#exposed.set(rawHeaders, exposed)
    return exposed
  }
}

function isOneOrigin (origin: string | undefined): origin is string {
  return origin !== undefined && oneOrigin.test(origin)
}

function originHeaders (origin: string): readonly string[] {
  return ['access-control-allow-origin', origin, 'access-control-allow-credentials', 'true']
}

function notAllowedError (what: 'origin' | 'request-method' | 'request-headers'): ErrorResponse {
  return webFrameworkError(403, `${what} not allowed`)
}

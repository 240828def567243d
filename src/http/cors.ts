import { type IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../api/refusal.js'

/** Which pages may read answers: those of any origin, or only those of the origins listed. */
export type AllowedOrigins = '*' | readonly string[]

/** The answer to a browser that asks first, where it may go on; its body is empty. */
export interface PreflightGrant {
  readonly status: 200
  /** Header lines, flat. */
  readonly lines: readonly string[]
}

// Node joins repeated Origin lines with a comma and a blank, so the blank alone tells them from one origin.
const oneOrigin = /^[\x21-\x7e]{1,512}$/

// Names as RFC 9110, section 5.6.2, has them, between commas and blanks: nothing else is worth echoing.
const headerNames = /^[!#$%&'*+.^_`|~0-9A-Za-z, \t-]*$/

// What a family of names holds: the position, and what belongs to an answer or comes with a refusal of pruned history.
const familyNames = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height',
  'cursor',
  'gas-used',
  'archival-endpoint'
]

const plainNames = ['etag', 'cache-status', 'retry-after']

/**
 * Lets other origins read, as nodes do, and exposes the headers, as nodes do not: docs/node-behaviour.md, "CORS".
 */
export class Cors {
  readonly #origins: '*' | ReadonlySet<string>
  #exposed: { families: readonly string[], names: string } | undefined

  constructor (origins: AllowedOrigins) {
    this.#origins = origins === '*' ? origins : new Set(origins)
  }

  /** Whether a page of this Origin may read responses. */
  isEchoed (origin: string | undefined): origin is string {
    return isOneOrigin(origin) && (this.#origins === '*' || this.#origins.has(origin))
  }

  /**
   * Whether CORS lines depend on Origin: every response names it in Vary then, also one to a request without Origin.
   */
  get dependsOnOrigin (): boolean {
    return this.#origins === '*' || this.#origins.size > 0
  }

  /**
   * The header lines to add to an answer, flat; none where no page of another origin may read it. Vary is the caller's
   * own line.
   */
  linesFor (origin: string | undefined, families: readonly string[]): readonly string[] {
    return this.isEchoed(origin)
      ? [...originLines(origin), 'access-control-expose-headers', this.#exposedNames(families)]
      : []
  }

  /** Whether a browser asks with these headers of an OPTIONS request whether a page may send another. */
  isPreflight ({ origin, 'access-control-request-method': method }: IncomingHttpHeaders): boolean {
    return isOneOrigin(origin) && method !== undefined
  }

  /**
   * What to say to an OPTIONS request with these headers; undefined when no browser asks in it whether a page may send
   * another request.
   */
  preflight (headers: IncomingHttpHeaders): PreflightGrant | Refusal | undefined {
    const { origin, 'access-control-request-method': method, 'access-control-request-headers': names = '' } = headers
    if (!isOneOrigin(origin) || method === undefined) return undefined
    if (!this.isEchoed(origin)) return refused('origin')
    if (method !== 'GET' && method !== 'POST') return refused('request-method')
    if (!headerNames.test(names)) return refused('request-headers')
    return {
      status: 200,
      lines: [
        ...originLines(origin),
        'access-control-allow-methods',
        'GET,POST',
        // What the nodes' web framework says where a browser names no headers.
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
  }

  // Joined once per list of families, not once per answer; the list changes only when a node's family is learned.
  #exposedNames (families: readonly string[]): string {
    if (this.#exposed === undefined || !isSameList(this.#exposed.families, families)) {
      const names = [...families.flatMap(family => familyNames.map(name => family + name)), ...plainNames].join(', ')
      this.#exposed = { families: [...families], names }
    }
    return this.#exposed.names
  }
}

function isOneOrigin (origin: string | undefined): origin is string {
  return origin !== undefined && oneOrigin.test(origin)
}

function originLines (origin: string): readonly string[] {
  return ['access-control-allow-origin', origin, 'access-control-allow-credentials', 'true']
}

function refused (what: 'origin' | 'request-method' | 'request-headers'): Refusal {
  return new Refusal(403, 'web_framework_error', `${what} not allowed`)
}

function isSameList (a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, at) => text === b[at])
}

import { readAccept } from './accept.js'
import { endpoints, type Endpoint, type PathParameter } from './endpoints.js'
import { type Read } from './read.js'
import { invalidInput, Refusal } from './refusal.js'
import { readTableRequest } from './table-request.js'

/** A client's request as it stood on the wire. */
export interface ClientRequest {
  readonly method: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
}

/** An endpoint and the raw texts found at its places; parsing them is the second step, so that refusals are counted by endpoint. */
export interface Match {
  readonly endpoint: Endpoint
  /** The raw target without scheme and host. */
  readonly target: string
  readonly path: readonly CapturedSegment[]
  readonly search: string
}

/** A segment of a path: a fixed one, or a parameter with the raw text at its place. */
type CapturedSegment = string | { readonly parameter: PathParameter, readonly raw: string }

// What the nodes' HTTP layer refuses in a request target (facts, section 4): in the path < > and `, in the query " < and >,
// anywhere # and what is not ASCII.
const legalTarget = /^[\x21\x22\x24-\x3b\x3d\x40-\x5f\x61-\x7e]*(?:\?[\x21\x24-\x3b\x3d\x3f-\x7e]*)?$/

/** Finds the endpoint that a raw request target names, an absolute form by its path; undefined for every route that varve does not know. */
export function matchEndpoint (target: string): Match | undefined {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '')
  const [path = '', search = ''] = splitOnce(local, '?')
  const segments = path.split('/').slice(1)
  for (const endpoint of endpoints) {
    const captured = capture(endpoint, segments)
    if (captured !== undefined) return { endpoint, target: local, path: captured, search }
  }
  return undefined
}

/** Normalises a matched request into the one read that all its spellings mean, or refuses it. */
export function readRequest (match: Match, request: ClientRequest): Read {
  const { endpoint } = match
  if (!legalTarget.test(match.target)) throw invalidInput('the request target holds a character that must be percent-encoded')
  if (!allows(endpoint, request.method)) {
    const allowed = endpoint.method === 'GET' ? 'GET, HEAD' : endpoint.method
    throw new Refusal(405, 'web_framework_error', 'method not allowed', ['allow', allowed])
  }
  const path = match.path.map(segment => typeof segment === 'string' ? segment : encodeURIComponent(readSegment(segment)))
  const { version, query } = readQuery(endpoint, match.search)
  return {
    endpoint,
    path: `/${path.join('/')}`,
    query,
    version,
    speaksOf: endpoint.keyedBy === 'block' ? BigInt(path.slice(-1).join('')) : version,
    accept: readAccept(request.accept),
    body: endpoint.takesTableKey ? readTableRequest(request.contentType, request.body) : undefined
  }
}

function allows (endpoint: Endpoint, method: string): boolean {
  return method === endpoint.method || (method === 'HEAD' && endpoint.method === 'GET')
}

function capture ({ path }: Endpoint, segments: readonly string[]): CapturedSegment[] | undefined {
  if (segments.length > path.length) return undefined
  const captured: CapturedSegment[] = []
  for (const [at, part] of path.entries()) {
    const raw = segments[at]
    if (raw === undefined || (typeof part === 'string' && part !== raw)) return undefined
    captured.push(typeof part === 'string' ? part : { parameter: part, raw })
  }
  return captured
}

function readSegment ({ parameter, raw }: Exclude<CapturedSegment, string>): string {
  try {
    const decoded = parameter.decodings === 2 ? decodeURIComponent(decodeURIComponent(raw)) : decodeURIComponent(raw)
    const value = parameter.read(decoded)
    if (value !== undefined) return value
  } catch {
    // Not UTF-8, or a broken escape: refused like any other text that cannot be valid.
  }
  throw invalidInput(`failed to parse path \`${parameter.name}\``)
}

function readQuery (endpoint: Endpoint, search: string): { version: bigint | undefined, query: [string, string][] } {
  // Nodes read queries as forms: + is a blank, names may be encoded, what is unknown is ignored.
  // The mark before it is the one that the parser takes off; a second one belongs to a name.
  const given = new URLSearchParams(`?${search}`)
  const query: [string, string][] = []
  let version: bigint | undefined
  for (const [name, read] of Object.entries(endpoint.query)) {
    const [text, ...repeats] = given.getAll(name)
    if (text === undefined) continue
    // Nodes take the first, others the last: an answer to one must never be kept for the other.
    if (repeats.length > 0) throw invalidInput(`the parameter \`${name}\` is given more than once`)
    const value = read(text)
    if (value === undefined) throw invalidInput(`failed to parse parameter \`${name}\``)
    if (name === 'ledger_version') version = BigInt(value)
    else query.push([name, value])
  }
  return { version, query }
}

function splitOnce (text: string, mark: string): [string, string] {
  const at = text.indexOf(mark)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

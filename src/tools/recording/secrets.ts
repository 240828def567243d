import { endpoints } from '../../api/endpoints.js'
import { decoded, type WrittenBytes, written } from './bytes.js'
import { type Lines } from './form.js'
import { valueOf } from './wire.js'

const mask = '***'
// What is shorter stands in many a body without being the secret.
const shortest = 8
const longestDecoded = 64 * 1024 * 1024

// What an answer can depend on, and which library asks: an allow-list, since nobody knows under what name somebody
// sends a key.
const kept =
  /^(?:accept|accept-encoding|accept-language|cache-control|content-type|content-length|content-encoding|transfer-encoding|origin|if-none-match|if-modified-since|range|user-agent|access-control-request-(?:method|headers)|x-varve-min-ledger-version|x-(?!(?:forwarded|real|true|original|remote)-)[a-z0-9-]{1,64}-(?:client|origin-method))$/
// What an answer has for this client alone, or may repeat of what it was asked with.
const notKept =
  /^(?:set-cookie2?|cookie|authorization|proxy-authorization|x-api-key|api-key|.*(?:token|secret|session|password).*)$/
const credentials = /^(?:cookie|.*(?:key|token|secret|auth|pass|session|credential|jwt|signature|csrf).*)$/
// `key` alone, and its like, within a name: no parameter of the nodes has one.
const secretParameter =
  /^(?:.*[-_.])?(?:api-?key|key|token|secret|password|auth|signature|sig|jwt|apikey|accesstoken|access_token)$/i
// What nodes take, and what stands behind /v1 there: under any other name somebody may send a key, and before any other
// word there may be one.
const parameters = new Set([
  ...endpoints.flatMap(({ query }) => Object.keys(query)),
  'start_version',
  'end_version',
  'duration_secs',
  'estimate_gas_unit_price',
  'estimate_max_gas_amount',
  'estimate_prioritized_gas_unit_price'
])
const firstWords = new Set([
  '',
  '-',
  'spec',
  'spec.json',
  'spec.yaml',
  'experimental',
  ...endpoints.flatMap(({ path: [, word] }) => typeof word === 'string' ? [word] : [])
])
// Numbers, addresses and hashes are of the chain.
const ofTheChain = /^(?:0x[0-9a-f]+|[0-9]+)$/i

/** The lines of a question that are written down. */
export function linesToKeep (lines: Lines): Lines {
  return lines.filter(([name]) => kept.test(name.toLowerCase()))
}

/**
 * A target without what it says of who asks: gateways have keys in the query, or in the path before /v1; nodes have
 * nothing there.
 */
export function targetToKeep (target: string): string {
  const [path, search] = halvesOf(target)
  const from = prefixOf(path)
  const local = from === undefined ? `/${mask}` : path.slice(from.length)
  if (search === undefined) return local
  return `${local}?${search.split('&').map(part => parameterIn(part).shown).join('&')}`
}

/**
 * What a node is reached with that is nobody's business: the path before /v1, where hosted ones have keys, and headers
 * that are not of those that any client sends.
 */
export function secretsOfUpstream (url: string, headers: Readonly<Record<string, string>>): string[] {
  const { pathname } = new URL(url)
  const values = Object.entries(headers).flatMap(([name, value]) =>
    kept.test(name.toLowerCase()) ? [] : [value, ...value.split(/\s+/)]
  )
  return [...values, ...values.flatMap(inBasic), pathname.replace(/^\/|\/+$/g, ''), ...pathname.split('/')]
}

/** What a client says of who it is, wherever it says so: an answer may repeat it. */
export function secretsOf (lines: Lines, target: string): string[] {
  const inHeaders = lines.filter(([name]) => credentials.test(name.toLowerCase())).flatMap((
    [, value]
  ) => [value, ...value.split(/[\s;,=]+/)])
  const [path, search = ''] = halvesOf(target)
  const inQuery = search.split('&').flatMap(part => parameterIn(part).secret ?? [])
  return [...inHeaders, ...inHeaders.flatMap(inBasic), ...(prefixOf(path) ?? path).split('/'), ...inQuery]
}

/** A parameter as it is written, and what of it an answer must not repeat. */
function parameterIn (part: string): { readonly shown: string, readonly secret?: string } {
  const [name = '', ...rest] = part.split('=')
  const value = rest.join('=')
  const isNamed = rest.length > 0
  const plainName = decodedUri(name)
  if (isNamed && secretParameter.test(plainName)) return { shown: `${name}=${mask}`, secret: value }
  // A key in base64 may end so.
  const isBare = /^=*$/.test(value)
  const text = isBare ? name : value
  if (parameters.has(plainName) || text.length < shortest || ofTheChain.test(text)) return { shown: part }
  // A word may stand in many an answer.
  return { shown: isBare ? mask : `${name}=${mask}`, ...(/[0-9]/.test(text) && { secret: text }) }
}

/** What Basic credentials stand for: a name and a password, either of which may be the key. */
function inBasic (value: string): string[] {
  const [, coded] = /^basic\s+(\S+)$/i.exec(value) ?? []
  if (coded === undefined) return []
  const text = Buffer.from(coded, 'base64').toString()
  const at = text.indexOf(':')
  return [text, text.slice(0, Math.max(at, 0)), text.slice(at + 1)]
}

/**
 * What stands before the /v1 that a route of nodes follows, since hosted ones may have a /v1 before the key too;
 * undefined where there is none, so that nobody can say what it is.
 */
function prefixOf (path: string): string | undefined {
  if (path === '/') return ''
  const places = [...path.matchAll(/\/v1(?=\/|$)/g)].map(({ index }) => index)
  const place = places.find(at => firstWords.has(path.slice(at).split('/', 3)[2] ?? '')) ?? places.at(-1)
  return place === undefined ? undefined : path.slice(0, place)
}

function halvesOf (target: string): [path: string, search: string | undefined] {
  const at = target.indexOf('?')
  return at === -1 ? [target, undefined] : [target.slice(0, at), target.slice(at + 1)]
}

/** What is kept out of every line of a recording. */
export class Secrets {
  // The longest first, or what is left of one could still be read.
  readonly #texts: readonly string[]

  constructor (secrets: readonly string[]) {
    this.#texts = [...new Set(secrets.flatMap(spellingsOf))].filter(text => text.length >= shortest).sort((a, b) =>
      b.length - a.length
    )
  }

  /** A text without them. */
  out (text: string): string {
    return this.#texts.reduce((masked, secret) => masked.replaceAll(secret, mask), text)
  }

  /** Header lines without them. */
  outOf (lines: Lines): Array<[string, string]> {
    return lines.filter(([name]) => !notKept.test(name.toLowerCase())).map(([name, value]) => [name, this.out(value)])
  }

  /** A body as it is written: text without them, other bytes only where none is in them. */
  written (bytes: Buffer, lines: Lines): WrittenBytes {
    const asIs = written(bytes)
    if (this.#texts.length === 0) return asIs
    if (asIs.body !== undefined) return { body: this.out(asIs.body) }
    const plain = decoded(bytes, valueOf(lines, 'content-encoding') ?? 'identity', longestDecoded)
    if (plain === undefined) return { leftOut: 'it is coded so that nobody can look whether it repeats a secret' }
    return this.#texts.some(secret => plain.includes(secret)) ? { leftOut: 'it repeats a secret' } : asIs
  }
}

function spellingsOf (secret: string): string[] {
  return [
    secret,
    encodeURIComponent(secret),
    encodeURI(secret),
    JSON.stringify(secret).slice(1, -1),
    Buffer.from(secret).toString('base64'),
    decodedUri(secret)
  ]
}

function decodedUri (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

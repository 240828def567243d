import { decoded, type WrittenBytes, written } from './bytes.js'
import { type Lines } from './form.js'
import { valueOf } from './wire.js'

const mask = '***'
// What is shorter stands in many a body without being the secret.
const shortest = 8
const longestDecoded = 64 * 1024 * 1024

// What an answer can depend on, and which library asks: an allow-list, since nobody knows under what name somebody sends a key.
const kept = /^(?:accept|accept-encoding|accept-language|cache-control|content-type|content-length|content-encoding|transfer-encoding|origin|if-none-match|if-modified-since|range|user-agent|access-control-request-(?:method|headers)|x-varve-min-ledger-version|x-(?!forwarded-)[a-z0-9-]{1,64}-(?:client|origin-method))$/
// What an answer has for this client alone, or may repeat of what it was asked with.
const notKept = /^(?:set-cookie2?|cookie|authorization|proxy-authorization|x-api-key|api-key)$/
const credentials = /^(?:cookie|authorization|proxy-authorization|.*(?:key|token|secret|auth|password).*)$/
// `key` alone, and its like, within a name: no parameter of the nodes has one.
const secretParameter = /^(?:.*[-_.])?(?:api-?key|key|token|secret|password|auth|signature|sig|jwt|apikey|accesstoken|access_token)$/i

/** The lines of a question that are written down. */
export function linesToKeep (lines: Lines): Lines {
  return lines.filter(([name]) => kept.test(name.toLowerCase()))
}

/** A target without what it says of who asks: gateways have keys in the query, or in the path before /v1; nodes have nothing there. */
export function targetToKeep (target: string): string {
  const [path, search] = halvesOf(target)
  const from = prefixOf(path)
  const local = from === undefined ? `/${mask}` : path.slice(from.length)
  if (search === undefined) return local
  const parts = search.split('&').map(part => {
    const [name = '', ...value] = part.split('=')
    return value.length > 0 && secretParameter.test(name) ? `${name}=${mask}` : part
  })
  return `${local}?${parts.join('&')}`
}

/** What a node is reached with that is nobody's business: the path before /v1, where hosted ones have keys, and headers that are not of those that any client sends. */
export function secretsOfUpstream (url: string, headers: Readonly<Record<string, string>>): string[] {
  const { pathname } = new URL(url)
  const values = Object.entries(headers).flatMap(([name, value]) => kept.test(name.toLowerCase()) ? [] : [value, ...value.split(/\s+/)])
  return [...values, pathname.replace(/^\/|\/+$/g, ''), ...pathname.split('/')]
}

/** What a client says of who it is, wherever it says so: an answer may repeat it. */
export function secretsOf (lines: Lines, target: string): string[] {
  const inHeaders = lines.filter(([name]) => credentials.test(name.toLowerCase())).flatMap(([, value]) => [value, ...value.split(/[\s;,=]+/)])
  const [path, search = ''] = halvesOf(target)
  const inQuery = search.split('&').flatMap(part => {
    const [name = '', ...value] = part.split('=')
    return secretParameter.test(name) ? [value.join('=')] : []
  })
  return [...inHeaders, ...(prefixOf(path) ?? path).split('/'), ...inQuery]
}

/** What stands before /v1; undefined where there is no /v1, so that nobody can say what it is. */
function prefixOf (path: string): string | undefined {
  if (path === '/') return ''
  return /^(.*?)\/v1(?:\/|$)/.exec(path)?.[1]
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
    this.#texts = [...new Set(secrets.flatMap(spellingsOf))].filter(text => text.length >= shortest).sort((a, b) => b.length - a.length)
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
  return [secret, encodeURIComponent(secret), encodeURI(secret), JSON.stringify(secret).slice(1, -1), Buffer.from(secret).toString('base64'), decodedUri(secret)]
}

function decodedUri (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

import { isSdkHeaderName } from '../../api/sdk-header-name.js'
import { minVersionHeader } from '../../api/min-version.js'
import { gatewayPrefixOf, knownParameters } from '../../api/request-targets.js'
import { decompressBody, type RecordedBody, encodeBody } from './recorded-body.js'
import { type HeaderLines } from './recording-format.js'
import { firstHeaderValue } from './verbatim-head.js'

const mask = '***'
// Shorter texts occur in bodies by coincidence.
const minSecretLength = 8
const maxDecompressedBytes = 64 * 1024 * 1024

// Allow-list of headers that affect responses or name the client library, because API keys can have any header name.
const recordedHeaderPattern =
  /^(?:accept|accept-encoding|accept-language|cache-control|content-type|content-length|content-encoding|transfer-encoding|origin|if-none-match|if-modified-since|range|user-agent|access-control-request-(?:method|headers))$/
// Headers of proxies about the client, whose names may look like those of a library.
const proxyHeaderPattern = /^x-(?:forwarded|real|true|original|remote)-/
// Headers that belong to one client, or that may repeat its credentials.
const droppedHeaderPattern =
  /^(?:set-cookie2?|cookie|authorization|proxy-authorization|x-api-key|api-key|.*(?:token|secret|session|password).*)$/
const credentialHeaderPattern = /^(?:cookie|.*(?:key|token|secret|auth|pass|session|credential|jwt|signature|csrf).*)$/
// Matches `key` and similar words also inside a name; no parameter of full nodes contains them.
const secretParameter =
  /^(?:.*[-_.])?(?:api-?key|key|token|secret|password|auth|signature|sig|jwt|apikey|accesstoken|access_token)$/i
// Numbers, addresses and hashes are public chain data.
const chainValuePattern = /^(?:0x[0-9a-f]+|[0-9]+)$/i

function isRecorded (header: string): boolean {
  const name = header.toLowerCase()
  return recordedHeaderPattern.test(name) || name === minVersionHeader ||
    (isSdkHeaderName(name) && !proxyHeaderPattern.test(name))
}

/** Selects the request headers to record. */
export function headersToRecord (lines: HeaderLines): HeaderLines {
  return lines.filter(([name]) => isRecorded(name))
}

/** Removes credentials from a target: gateways accept API keys in the query or in the path before /v1. */
export function targetToRecord (target: string): string {
  const [path, search] = splitTarget(target)
  const from = gatewayPrefixOf(path)
  const local = from === undefined ? `/${mask}` : path.slice(from.length)
  if (search === undefined) return local
  return `${local}?${search.split('&').map(part => redactParameter(part).shown).join('&')}`
}

/** Collects upstream credentials: the path before /v1, where hosted upstreams have API keys, and uncommon headers. */
export function secretsOfUpstream (url: string, headers: Readonly<Record<string, string>>): string[] {
  const { pathname } = new URL(url)
  const values = Object.entries(headers).flatMap(([name, value]) =>
    isRecorded(name) ? [] : [value, ...value.split(/\s+/)]
  )
  return [...values, ...values.flatMap(basicCredentialsOf), pathname.replace(/^\/|\/+$/g, ''), ...pathname.split('/')]
}

/** Collects a client's credentials from headers and target, because responses may repeat them. */
export function secretsOfClient (lines: HeaderLines, target: string): string[] {
  const inHeaders = lines.filter(([name]) => credentialHeaderPattern.test(name.toLowerCase())).flatMap((
    [, value]
  ) => [value, ...value.split(/[\s;,=]+/)])
  const [path, search = ''] = splitTarget(target)
  const inQuery = search.split('&').flatMap(part => redactParameter(part).secret ?? [])
  return [
    ...inHeaders,
    ...inHeaders.flatMap(basicCredentialsOf),
    ...(gatewayPrefixOf(path) ?? path).split('/'),
    ...inQuery
  ]
}

/** Redacts a parameter and extracts the secret that responses must not repeat. */
function redactParameter (part: string): { readonly shown: string, readonly secret?: string } {
  const [name = '', ...rest] = part.split('=')
  const value = rest.join('=')
  const isNamed = rest.length > 0
  const plainName = decodedUri(name)
  if (isNamed && secretParameter.test(plainName)) return { shown: `${name}=${mask}`, secret: value }
  // Base64 keys may end with equals signs.
  const isBare = /^=*$/.test(value)
  const text = isBare ? name : value
  if (knownParameters.has(plainName) || text.length < minSecretLength || chainValuePattern.test(text)) {
    return { shown: part }
  }
  // Plain words occur in many responses, so only values with digits count as secrets.
  return { shown: isBare ? mask : `${name}=${mask}`, ...(/[0-9]/.test(text) && { secret: text }) }
}

/** Decodes Basic credentials, where the user name or the password may be the API key. */
function basicCredentialsOf (value: string): string[] {
  const [, coded] = /^basic\s+(\S+)$/i.exec(value) ?? []
  if (coded === undefined) return []
  const text = Buffer.from(coded, 'base64').toString()
  const at = text.indexOf(':')
  return [text, text.slice(0, Math.max(at, 0)), text.slice(at + 1)]
}

function splitTarget (target: string): [path: string, search: string | undefined] {
  const at = target.indexOf('?')
  return at === -1 ? [target, undefined] : [target.slice(0, at), target.slice(at + 1)]
}

/** Removes secrets from every line of a recording. */
export class SecretRedactor {
  // Longest first, or the rest of a longer secret would stay readable.
  readonly #texts: readonly string[]

  constructor (secrets: readonly string[]) {
    this.#texts = [...new Set(secrets.flatMap(spellingsOf))].filter(text => text.length >= minSecretLength).sort((
      a,
      b
    ) => b.length - a.length)
  }

  /** Masks all secrets in a text. */
  redact (text: string): string {
    return this.#texts.reduce((masked, secret) => masked.replaceAll(secret, mask), text)
  }

  /** Drops credential headers and masks secrets in the others. */
  redactHeaders (lines: HeaderLines): Array<[string, string]> {
    return lines.filter(([name]) => !droppedHeaderPattern.test(name.toLowerCase())).map((
      [name, value]
    ) => [name, this.redact(value)])
  }

  /** Encodes a body with masked text; other bytes only if they contain no secret. */
  encodeBody (bytes: Buffer, lines: HeaderLines): RecordedBody {
    const asIs = encodeBody(bytes)
    if (this.#texts.length === 0) return asIs
    if (asIs.body !== undefined) return { body: this.redact(asIs.body) }
    const plain = decompressBody(bytes, firstHeaderValue(lines, 'content-encoding') ?? 'identity', maxDecompressedBytes)
    if (plain === undefined) return { leftOut: 'its coding cannot be searched for secrets' }
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

import { hash, randomBytes } from 'node:crypto'
import { type IncomingHttpHeaders } from 'node:http'

/** Configured API key and the client name that it stands for. */
export interface NamedKey {
  readonly name: string
  readonly key: string
}

/** Maps API keys to client names; stores digests, not the keys. */
export class ApiKeys {
  // Salts digests per process, so that clients cannot choose them: look-up times of the map reveal nothing about keys.
  readonly #salt = randomBytes(32).toString('hex')
  readonly #names: ReadonlyMap<string, string>

  constructor (keys: readonly NamedKey[]) {
    this.#names = new Map(keys.map(({ name, key }) => [this.#digestOf(key), name]))
  }

  /** Returns the client name for the key in these headers; undefined for a missing or unknown key. */
  nameFor ({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | undefined {
    return this.#nameOf(readBearerToken(authorization)) ?? this.#nameOf(apiKey)
  }

  // Node.js keeps the first Authorization line but joins repeated X-Api-Key lines, which then match no key.
  #nameOf (given: string | string[] | undefined): string | undefined {
    return typeof given === 'string' ? this.#names.get(this.#digestOf(given)) : undefined
  }

  // Hashing takes the same time for every input of one length, so it leaks nothing about keys.
  #digestOf (text: string): string {
    return hash('sha256', this.#salt + text, 'base64')
  }
}

/** Extracts the credentials of the Bearer scheme (RFC 6750, section 2.1). */
export function readBearerToken (authorization: string | undefined): string | undefined {
  const [scheme = ''] = /^Bearer +/i.exec(authorization ?? '') ?? []
  if (authorization === undefined || scheme === '') return undefined
  let end = authorization.length
  // Trims by hand: a pattern for trailing blanks takes quadratic time on many of them.
  while (end > scheme.length && authorization[end - 1] === ' ') end--
  return authorization.slice(scheme.length, end) || undefined
}

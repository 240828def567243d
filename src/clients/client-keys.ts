import { hash, randomBytes } from 'node:crypto'
import { type IncomingHttpHeaders } from 'node:http'

/** A key as it is configured: whoever sends it is known by the name. */
export interface NamedKey {
  readonly name: string
  readonly key: string
}

/** Who is known by which key; of the keys themselves it keeps none. */
export class ClientKeys {
  // Of its own in each process: nobody can choose a digest, so what the time of a look-up tells of digests tells
  // nothing of keys.
  readonly #salt = randomBytes(32).toString('hex')
  readonly #names: ReadonlyMap<string, string>

  constructor (keys: readonly NamedKey[]) {
    this.#names = new Map(keys.map(({ name, key }) => [this.#digestOf(key), name]))
  }

  /** By which name a client is known that sends these headers; undefined where it sends no key that is known. */
  nameIn ({ authorization, 'x-api-key': apiKey }: IncomingHttpHeaders): string | undefined {
    return this.#nameOf(bearerIn(authorization)) ?? this.#nameOf(apiKey)
  }

  // Of two lines of Authorization Node keeps the first; two of the other are joined, and are no key then.
  #nameOf (given: string | string[] | undefined): string | undefined {
    return typeof given === 'string' ? this.#names.get(this.#digestOf(given)) : undefined
  }

  // Takes as long for whatever is given of one length, and as little of it as a comparison could tell is of the key.
  #digestOf (text: string): string {
    return hash('sha256', this.#salt + text, 'base64')
  }
}

/** The credentials of an Authorization line of the scheme Bearer (RFC 6750, section 2.1). */
export function bearerIn (authorization: string | undefined): string | undefined {
  const [scheme = ''] = /^Bearer +/i.exec(authorization ?? '') ?? []
  if (authorization === undefined || scheme === '') return undefined
  let to = authorization.length
  // By hand: a pattern for blanks at an end takes quadratic time where there are many of them.
  while (to > scheme.length && authorization[to - 1] === ' ') to--
  return authorization.slice(scheme.length, to) || undefined
}

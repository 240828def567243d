import { type Config } from './schema.js'

const mask = '***'
// A shorter text is masked only where it stands alone, or it would take the middle out of every other word.
const shortest = 8

/**
 * Takes what the configuration keeps secret out of any text, whoever wrote it: a library may quote a URL with its credentials, a node a header that it was sent.
 * What the configuration before this one kept is still secret, since what is under way may speak of it.
 */
export class Masking {
  #before: readonly string[] = []
  #current: readonly string[]
  #pattern: RegExp | undefined

  constructor (config: Config) {
    this.#current = secretsIn(config)
    this.#pattern = patternOf(this.#current)
  }

  /** From now on the secrets of another configuration are masked too. */
  take (config: Config): void {
    [this.#before, this.#current] = [this.#current, secretsIn(config)]
    this.#pattern = patternOf([...this.#before, ...this.#current])
  }

  /** The text without them. */
  mask (text: string): string {
    return this.#pattern === undefined ? text : text.replace(this.#pattern, mask)
  }

  /** A line of JSON without them: each text in it is looked at as it reads, since a secret may be spelled otherwise between quotes. */
  maskJson (line: string): string {
    return line.replace(/"(?:[^"\\]|\\.)*"/g, literal => {
      const text = JSON.parse(literal) as string
      const masked = this.mask(text)
      return masked === text ? literal : JSON.stringify(masked)
    })
  }
}

function secretsIn ({ admin, upstreams, clients, cache: { redis } }: Config): string[] {
  const secrets = [
    admin.token,
    redis.username,
    redis.password,
    redis.sentinel.password,
    ...clients.keys.map(({ key }) => key),
    ...upstreams.flatMap(({ headers }) => Object.values(headers).flatMap(withItsParts)),
    ...[redis.url ?? '', ...upstreams.map(({ url }) => url)].flatMap(inUrl)
  ]
  return [...new Set(secrets.flatMap(secret => secret === null ? [] : spellingsOf(secret)))].filter(text => text.trim() !== '')
}

// The key after the name of a scheme is what is secret of `Bearer KEY`.
function withItsParts (value: string): string[] {
  return [value, ...value.split(/\s+/).slice(1)]
}

/** Its credentials and its path, where hosted gateways put the key. */
function inUrl (text: string): string[] {
  if (!URL.canParse(text)) return []
  const { username, password, pathname } = new URL(text)
  const path = pathname.replace(/\/+$/, '')
  // The number of a database of Redis is no secret.
  const isPath = path !== '' && !/^\/[0-9]{1,4}$/.test(path)
  return [username, password, ...(isPath ? [path, ...path.split('/').filter(part => part.length >= shortest)] : [])]
}

function spellingsOf (secret: string): string[] {
  return [secret, encodeURIComponent(secret), encodeURI(secret), decoded(secret)]
}

function decoded (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function patternOf (secrets: readonly string[]): RegExp | undefined {
  if (secrets.length === 0) return undefined
  // The longest first, or what is left of it would still be readable.
  const alternatives = secrets.toSorted((a, b) => b.length - a.length).map(secret => {
    const text = secret.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
    return secret.length < shortest ? `(?<![A-Za-z0-9_])${text}(?![A-Za-z0-9_])` : text
  })
  return new RegExp(alternatives.join('|'), 'g')
}

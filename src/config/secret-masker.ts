import { type Config } from './schema.js'

const mask = '***'
// A shorter text is masked only where it stands alone, or it would take the middle out of every other word.
const minUnboundedLength = 8
// Of hundreds of configurations, or of thousands of clients (law 10).
const maxSecrets = 20_000

/**
 * Takes what the configuration keeps secret out of any text, whoever wrote it: a library may quote a URL with its
 * credentials, a node a header that it was sent. What an earlier configuration kept is still secret: it may be in use
 * until the next start, and what is under way may speak of it.
 */
export class SecretMasker {
  // Those that were taken last at the end.
  readonly #secrets = new Set<string>()
  #pattern: RegExp | undefined

  constructor (config: Config) {
    this.addSecretsOf(config)
  }

  /** From now on the secrets of another configuration are masked too, be it used or refused. */
  addSecretsOf (config: Config): void {
    for (const secret of secretsIn(config)) {
      this.#secrets.delete(secret)
      this.#secrets.add(secret)
    }
    for (const oldest of this.#secrets) if (this.#secrets.size > maxSecrets) this.#secrets.delete(oldest)
    this.#pattern = patternOf([...this.#secrets])
  }

  /** The text without them. */
  mask (text: string): string {
    return this.#pattern === undefined ? text : text.replace(this.#pattern, mask)
  }

  /**
   * A line of JSON without them: each text in it is looked at as it reads, since a secret may be spelled otherwise
   * between quotes. Names of the log's own are short words.
   */
  maskJson (line: string): string {
    return line.replace(/"(?:[^"\\]|\\.)*"(:?)/g, (literal, colon: string) => {
      const text = JSON.parse(colon === '' ? literal : literal.slice(0, -1)) as string
      const masked = colon !== '' && text.length <= minUnboundedLength ? text : this.mask(text)
      return masked === text ? literal : JSON.stringify(masked) + colon
    })
  }
}

function secretsIn ({ admin, upstreams, clients, cache: { redis } }: Config): string[] {
  const secrets = [
    admin.token,
    ...secretUserNames(redis.username ?? ''),
    redis.password,
    redis.sentinel.password,
    ...clients.keys.map(({ key }) => key),
    ...upstreams.flatMap(({ headers }) => Object.values(headers).flatMap(headerSecretsOf)),
    ...[redis.url ?? '', ...upstreams.map(({ url }) => url)].flatMap(urlSecretsOf)
  ]
  return [...new Set(secrets.flatMap(secret => secret === null ? [] : spellingsOf(secret)))].filter(text =>
    text.trim() !== ''
  )
}

// The key after the name of a scheme is what is secret of `Bearer KEY`.
function headerSecretsOf (value: string): string[] {
  return [value, ...value.split(/\s+/).slice(1)]
}

/** Its credentials and its path, where hosted gateways put the key. */
function urlSecretsOf (text: string): string[] {
  if (!URL.canParse(text)) return []
  const { username, password, pathname } = new URL(text)
  const path = pathname.replace(/\/+$/, '')
  // The number of a database of Redis is no secret.
  const isPath = path !== '' && !/^\/[0-9]{1,4}$/.test(path)
  return [
    ...secretUserNames(username),
    password,
    ...(isPath ? [path, ...path.split('/').filter(part => part.length >= minUnboundedLength)] : [])
  ]
}

// What is called by one word, as most users are, would take that word out of every sentence.
function secretUserNames (username: string): string[] {
  return /^[A-Za-z]*$/.test(username) ? [] : [username]
}

function spellingsOf (secret: string): string[] {
  return [secret, encodeURIComponent(secret), encodeURI(secret), decodedUri(secret)]
}

function decodedUri (text: string): string {
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
    return secret.length < minUnboundedLength ? `(?<![A-Za-z0-9_])${text}(?![A-Za-z0-9_])` : text
  })
  return new RegExp(alternatives.join('|'), 'g')
}

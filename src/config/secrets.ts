import { type Config } from './schema.js'

const mask = '***'
// A shorter secret is masked only as a whole word, or parts of unrelated words would be masked.
const minUnboundedLength = 8
// Enough for hundreds of reloads or thousands of clients (law 10: nothing grows without bound).
const maxSecrets = 20_000

/**
 * Returns true for keys whose values are never shown: tokens, client keys, upstream headers, and URLs, which may
 * contain credentials. Parents of such keys count too, because a secret is easily put there by mistake.
 */
export function isSecret (path: readonly string[]): boolean {
  const [top, second, third] = path
  if (top === 'upstreams') return third === undefined || third === 'headers' || third === 'url'
  if (top === 'admin') return second === undefined || second === 'token'
  if (top === 'clients') return second === undefined || (second === 'keys' && (path.length < 4 || path[3] === 'key'))
  if (top === 'tracing') return second === undefined || second === 'otlpUrl'
  return top === 'cache' &&
    (second === undefined ||
      (second === 'redis' && !['keyPrefix', 'timeoutMs', 'ttlSeconds', 'tls', 'caFile'].includes(third ?? '')))
}

/**
 * Returns true for words of letters, as in keys and header names. A misplaced secret is longer, or contains digits or
 * other characters.
 */
export function isNameLike (text: string): boolean {
  return /^_*[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20}){0,4}_*$/.test(text)
}

/** Formats a key's path for display; parts that are neither a name nor a list position are masked. */
export function shownPath (path: readonly string[]): string {
  return path.map(key => isNameLike(key) || /^[0-9]{1,4}$/.test(key) ? key : mask).join('.')
}

/** Returns the effective settings for display, without secrets, values from secret files and other given keys. */
export function maskSecrets ({ fromFiles = [], ...config }: Config, others: readonly string[] = []): Config {
  const shown = structuredClone(maskSecretKeys(config))
  for (const path of [...fromFiles, ...others]) maskAt(shown, path.split('.'))
  return shown
}

// Ignores missing paths: header values are already masked, and a flag may have replaced the value.
function maskAt (value: unknown, [key = '', ...rest]: readonly string[]): void {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return
  const at = value as Record<string, unknown>
  if (rest.length > 0) maskAt(at[key], rest)
  else if (at[key] !== null) at[key] = mask
}

function maskSecretKeys (config: Config): Config {
  return {
    ...config,
    admin: { ...config.admin, token: config.admin.token === null ? null : mask },
    upstreams: config.upstreams.map(upstream => ({
      ...upstream,
      url: maskUrl(upstream.url),
      headers: Object.fromEntries(
        Object.keys(upstream.headers).map((name, at) => [isNameLike(name) ? name : `${mask} (header ${at + 1})`, mask])
      )
    })),
    cache: { ...config.cache, redis: maskRedis(config.cache.redis) },
    clients: { ...config.clients, keys: config.clients.keys.map(client => ({ ...client, key: mask })) },
    tracing: { ...config.tracing, otlpUrl: config.tracing.otlpUrl === null ? null : maskUrl(config.tracing.otlpUrl) }
  }
}

function maskRedis (redis: Config['cache']['redis']): Config['cache']['redis'] {
  return {
    ...redis,
    url: redis.url === null ? null : maskUrl(redis.url),
    password: redis.password === null ? null : mask,
    sentinel: { ...redis.sentinel, password: redis.sentinel.password === null ? null : mask }
  }
}

/**
 * Masks the credentials and the path of a URL, because hosted gateways and collectors take API keys in the path. The
 * path of a Redis URL is a database number and stays.
 */
export function maskUrl (text: string): string {
  const url = new URL(text)
  if (url.password !== '') url.password = mask
  if (url.username !== '') url.username = mask
  return url.origin === 'null' || url.pathname === '/' ? url.href : `${url.origin}/${mask}`
}

/**
 * Masks configured secrets in any text: a library may quote a URL with credentials, an upstream may quote a request
 * header. Secrets of earlier configurations stay masked, because requests in flight and keys that need a restart still
 * use them.
 */
export class SecretMasker {
  // Most recently added last, so that the oldest are dropped first.
  readonly #secrets = new Set<string>()
  #pattern: RegExp | undefined

  constructor (config: Config) {
    this.addSecretsOf(config)
  }

  /** Masks the secrets of another configuration too, even if that is rejected later. */
  addSecretsOf (config: Config): void {
    for (const secret of secretsIn(config)) {
      this.#secrets.delete(secret)
      this.#secrets.add(secret)
    }
    for (const oldest of this.#secrets) if (this.#secrets.size > maxSecrets) this.#secrets.delete(oldest)
    this.#pattern = patternOf([...this.#secrets])
  }

  /** Returns the text with all secrets masked. */
  mask (text: string): string {
    return this.#pattern === undefined ? text : text.replace(this.#pattern, mask)
  }

  /**
   * Masks the decoded texts of a JSON line, because JSON may escape characters of a secret. Short member names belong
   * to the log itself and stay.
   */
  maskJson (line: string): string {
    return line.replace(/"(?:[^"\\]|\\.)*"(:?)/g, (literal, colon: string) => {
      const text = JSON.parse(colon === '' ? literal : literal.slice(0, -1)) as string
      const masked = colon !== '' && text.length <= minUnboundedLength ? text : this.mask(text)
      return masked === text ? literal : JSON.stringify(masked) + colon
    })
  }
}

function secretsIn ({ admin, upstreams, clients, tracing, cache: { redis } }: Config): string[] {
  const secrets = [
    admin.token,
    ...secretUserNames(redis.username ?? ''),
    redis.password,
    redis.sentinel.password,
    ...clients.keys.map(({ key }) => key),
    ...upstreams.flatMap(({ headers }) => Object.values(headers).flatMap(headerSecretsOf)),
    ...[redis.url ?? '', tracing.otlpUrl ?? '', ...upstreams.map(({ url }) => url)].flatMap(urlSecretsOf)
  ]
  return [...new Set(secrets.flatMap(secret => secret === null ? [] : spellingsOf(secret)))].filter(text =>
    text.trim() !== ''
  )
}

// The secret of `Bearer KEY` is the word after the scheme.
function headerSecretsOf (value: string): string[] {
  return [value, ...value.split(/\s+/).slice(1)]
}

/** Lists the credentials and the path of a URL, because hosted gateways and collectors take API keys in the path. */
function urlSecretsOf (text: string): string[] {
  if (!URL.canParse(text)) return []
  const { username, password, pathname } = new URL(text)
  const path = pathname.replace(/\/+$/, '')
  // The database number of a Redis URL is no secret.
  const isPath = path !== '' && !/^\/[0-9]{1,4}$/.test(path)
  return [
    ...secretUserNames(username),
    password,
    ...(isPath ? [path, ...path.split('/').filter(part => part.length >= minUnboundedLength)] : [])
  ]
}

// Most user names are single words, and masking them would damage ordinary sentences.
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
  // Longest first, or the rest of a longer secret would stay readable.
  const alternatives = secrets.toSorted((a, b) => b.length - a.length).map(secret => {
    const text = secret.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
    return secret.length < minUnboundedLength ? `(?<![A-Za-z0-9_])${text}(?![A-Za-z0-9_])` : text
  })
  return new RegExp(alternatives.join('|'), 'g')
}

import { type Config } from './schema.js'

const mask = '***'
// A shorter secret is masked only as a whole word, or parts of unrelated words would be masked.
const minUnboundedLength = 8
// Enough for hundreds of reloads or thousands of clients (law 10: nothing grows without bound).
const maxSecrets = 20_000

/** Kinds of secret values: the text to show instead, and the secrets in it. */
const kinds = {
  text: { shown: () => mask, secretsIn: (text: string) => [text] },
  // The secret of `Bearer KEY` is the word after the scheme.
  header: { shown: () => mask, secretsIn: (text: string) => [text, ...text.split(/\s+/).slice(1)] },
  url: { shown: maskUrl, secretsIn: urlSecretsOf },
  user: { shown: (text: string) => text, secretsIn: secretUserNames }
} as const

/** Keys of secret values; `*` stands for each item of a list and each name of a map. */
const secretKeys: ReadonlyArray<readonly [path: readonly string[], kind: keyof typeof kinds]> = [
  [['admin', 'token'], 'text'],
  [['upstreams', '*', 'url'], 'url'],
  [['upstreams', '*', 'headers', '*'], 'header'],
  [['clients', 'keys', '*', 'key'], 'text'],
  [['tracing', 'otlpUrl'], 'url'],
  [['tracing', 'headers', '*'], 'header'],
  [['cache', 'redis', 'url'], 'url'],
  [['cache', 'redis', 'username'], 'user'],
  [['cache', 'redis', 'password'], 'text'],
  [['cache', 'redis', 'sentinel', 'password'], 'text']
]
// Keys beside a password, into which a password is easily put by mistake.
const suspectKeys = [['cache', 'redis', 'cluster'], ['cache', 'redis', 'sentinel']]

/**
 * Returns true for keys whose values no message quotes: tokens, client keys, upstream headers, and URLs, which may
 * contain credentials. Parents of such keys count too, because a secret is easily put there by mistake.
 */
export function isSecret (path: readonly string[]): boolean {
  return [...secretKeys.map(([secret]) => secret), ...suspectKeys].some(secret =>
    secret.every((key, at) => path[at] === undefined || key === '*' || key === path[at])
  )
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
  const shown = structuredClone(config)
  for (const [path, kind] of secretKeys) {
    for (const { holder, name } of placesAt(shown, path)) holder[name] = kinds[kind].shown(String(holder[name]))
  }
  for (const upstream of shown.upstreams) {
    upstream.headers = Object.fromEntries(
      Object.keys(upstream.headers).map((name, at) => [isNameLike(name) ? name : `${mask} (header ${at + 1})`, mask])
    )
  }
  for (const path of [...fromFiles, ...others]) {
    for (const { holder, name } of placesAt(shown, path.split('.'))) holder[name] = mask
  }
  return shown
}

/** Lists the holder and the name of each value at a path, which a flag may have replaced. */
function placesAt (
  value: unknown,
  [key = '', ...rest]: readonly string[]
): Array<{ readonly holder: Record<string, unknown>, readonly name: string }> {
  if (typeof value !== 'object' || value === null) return []
  const holder = value as Record<string, unknown>
  return Object.keys(holder).filter(name => key === '*' || key === name).flatMap(name => {
    if (rest.length > 0) return placesAt(holder[name], rest)
    return holder[name] === null ? [] : [{ holder, name }]
  })
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

  /** Masks the secrets of another configuration too, even if that configuration is rejected later. */
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

function secretsIn (config: Config): string[] {
  const secrets = secretKeys.flatMap(([path, kind]) =>
    placesAt(config, path).flatMap(({ holder, name }) => kinds[kind].secretsIn(String(holder[name])))
  )
  return [...new Set(secrets.flatMap(spellingsOf))].filter(text => text.trim() !== '')
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

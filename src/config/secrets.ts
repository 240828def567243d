import { type Config } from './schema.js'

const mask = '***'

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

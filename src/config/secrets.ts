import { type Config } from './schema.js'

const mask = '***'

/**
 * Whether a key holds what must never be shown: tokens, keys, the nodes' own headers, and URLs, which may carry either;
 * so does what stands in the place of the map or list around one, where a secret is easily put by mistake.
 */
export function isSecret (path: readonly string[]): boolean {
  const [top, second, third] = path
  if (top === 'upstreams') return third === undefined || third === 'headers' || third === 'url'
  if (top === 'admin') return second === undefined || second === 'token'
  if (top === 'clients') return second === undefined || (second === 'keys' && (path.length < 4 || path[3] === 'key'))
  return top === 'cache' &&
    (second === undefined ||
      (second === 'redis' && !['keyPrefix', 'timeoutMs', 'ttlSeconds', 'tls', 'caFile'].includes(third ?? '')))
}

/**
 * Whether a text that stands where a name belongs may be shown: words of letters, as keys and header names are. A
 * secret that has slipped into such a place has digits, or is longer, or has other signs in it.
 */
export function isNameLike (text: string): boolean {
  return /^_*[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20}){0,4}_*$/.test(text)
}

/** A key's path as it may be shown: what is neither a name nor a place in a list is masked. */
export function shownPath (path: readonly string[]): string {
  return path.map(key => isNameLike(key) || /^[0-9]{1,4}$/.test(key) ? key : mask).join('.')
}

/**
 * The effective settings as they may be shown to anybody; without what came from files of its own, wherever that is.
 */
export function maskSecrets (config: Config, fromFiles: readonly string[] = []): Config {
  const shown = structuredClone(maskSecretKeys(config))
  for (const path of fromFiles) maskAt(shown, path.split('.'))
  return shown
}

// A header's name may have dots in it, and is masked already; what a flag has taken the place of is not there.
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
    clients: { ...config.clients, keys: config.clients.keys.map(client => ({ ...client, key: mask })) }
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
 * A URL without its credentials; a path is masked too, since hosted gateways put the key there; that of a Redis is the
 * number of a database.
 */
export function maskUrl (text: string): string {
  const url = new URL(text)
  if (url.password !== '') url.password = mask
  if (url.username !== '') url.username = mask
  return url.origin === 'null' || url.pathname === '/' ? url.href : `${url.origin}/${mask}`
}

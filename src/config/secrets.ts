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
  return top === 'cache' && (second === undefined || (second === 'redis' && !['keyPrefix', 'timeoutMs', 'ttlSeconds', 'tls', 'caFile'].includes(third ?? '')))
}

/** The effective settings as they may be shown to anybody. */
export function maskSecrets (config: Config): Config {
  return {
    ...config,
    admin: { ...config.admin, token: config.admin.token === null ? null : mask },
    upstreams: config.upstreams.map(node => ({
      ...node,
      url: maskUrl(node.url),
      headers: Object.fromEntries(Object.keys(node.headers).map(name => [name, mask]))
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

/** A URL without its credentials; a path is masked too, since hosted gateways put the key there. */
export function maskUrl (text: string): string {
  const url = new URL(text)
  if (url.password !== '') url.password = mask
  if (url.username !== '') url.username = mask
  return url.origin === 'null' || url.pathname === '/' ? url.href : `${url.origin}/${mask}`
}

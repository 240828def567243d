import { isLoopback } from './ip-networks.js'
import { type Config } from './schema.js'
import { type Environment } from './variables.js'

/** Decides for each upstream without a setting of its own if the environment names a proxy for it. */
export function withProxies (config: Config, environment: Environment): Config {
  const upstreams = config.upstreams.map(upstream => ({
    ...upstream,
    proxy: upstream.proxy ?? isProxied(upstream.url, environment)
  }))
  return { ...config, upstreams }
}

// The HTTP library reads the same variables, and NO_PROXY. This machine itself is never behind a proxy.
function isProxied (url: string, environment: Environment): boolean {
  const { protocol, hostname } = new URL(url)
  const names = protocol === 'https:' ? ['https_proxy', 'http_proxy'] : ['http_proxy']
  return !isLoopback(hostname.replace(/^\[|\]$/g, '')) &&
    names.flatMap(name => [name, name.toUpperCase()]).some(name => (environment[name] ?? '') !== '')
}

import { isLoopback } from './ip-networks.js'
import { type Environment } from './variables.js'

/**
 * Returns true if the environment names a proxy for requests to a URL. The HTTP library reads the same variables, and
 * NO_PROXY; this machine itself is never behind a proxy.
 */
export function isProxied (url: string, environment: Environment = process.env): boolean {
  const { protocol, hostname } = new URL(url)
  const names = protocol === 'https:' ? ['https_proxy', 'http_proxy'] : ['http_proxy']
  return !isLoopback(hostname.replace(/^\[|\]$/g, '')) &&
    names.flatMap(name => [name, name.toUpperCase()]).some(name => (environment[name] ?? '') !== '')
}

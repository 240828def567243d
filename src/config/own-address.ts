import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type Mistake } from './config-error.js'
import { type Config } from './schema.js'
import { hostAndPort } from './value-checks.js'

/** Addresses of this machine, as a parameter for tests. */
export type Interfaces = () => ReadonlyArray<{ readonly address: string }>

/** Rejects each upstream that is a listener of this varve, which would fetch from itself without end. */
export function ownAddressMistakes (config: Config, interfaces: Interfaces = addressesOfMachine): Mistake[] {
  const listeners = [
    { key: 'listen', flag: '--listen', address: config.listen },
    { key: 'admin.listen', flag: '--admin', address: config.admin.listen }
  ]
  return config.upstreams.flatMap(({ url }, at) => {
    const own = listeners.filter(({ address }) => isOwnListener(url, address, interfaces))
    return own.map(({ key, flag }) => ({
      path: `upstreams.${at}.url`,
      message: `expected the address of a full node, got varve's own (${key}): ` +
        `correct the URL, or choose another address for varve with ${flag} or ${key}`
    }))
  })
}

function isOwnListener (url: string, listen: string, interfaces: Interfaces): boolean {
  const { hostname, port, protocol } = new URL(url)
  const own = hostAndPort(listen)
  // Port 0 picks a free port, which no configuration can name as an upstream.
  if (own.port === 0 || Number(port || (protocol === 'https:' ? 443 : 80)) !== own.port) return false
  const [to, at] = [canonicalHost(hostname), canonicalHost(own.host)]
  if (to === at) return true
  // Connections to 0.0.0.0 or :: reach this machine.
  if (isUnspecified(at)) {
    return isUnspecified(to) || isLoopbackHost(to) || interfaces().some(({ address }) => canonicalHost(address) === to)
  }
  return isMainLoopback(at) && (isUnspecified(to) || (isMainLoopback(to) && (at === 'localhost' || to === 'localhost')))
}

/** Normalises a host: lower case, no brackets, no final dot, and IPv4-mapped IPv6 as IPv4. */
function canonicalHost (host: string): string {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase().replace(/\.$/, '')
  if (!bare.includes(':')) return bare
  const canonical = URL.canParse(`http://[${bare}]`) ? new URL(`http://[${bare}]`).hostname.slice(1, -1) : bare
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical) ?? []
  if (high === undefined || low === undefined) return canonical
  const [a, b] = [parseInt(high, 16), parseInt(low, 16)]
  return [a >> 8, a & 255, b >> 8, b & 255].join('.')
}

function isUnspecified (host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

function isLoopbackHost (host: string): boolean {
  return isMainLoopback(host) || (isIPv4(host) && host.startsWith('127.'))
}

// Hosts that `localhost` resolves to.
function isMainLoopback (host: string): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host === '::1'
}

function addressesOfMachine (): Array<{ address: string }> {
  return Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
}

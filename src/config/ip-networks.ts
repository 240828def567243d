import { BlockList, isIP } from 'node:net'

/** Named networks, with the names that other proxies use. */
export const namedIpNetworks: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
  // Connections to a unix socket have no address.
  unix: []
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Accepts an address, a network as ADDRESS/BITS, or the name of a named network. */
export function isIpNetwork (text: string): boolean {
  const [address = '', bits, more] = text.split('/')
  const family = isIP(address)
  if (family === 0) return Object.hasOwn(namedIpNetworks, text)
  return more === undefined && !address.includes('%') &&
    (bits === undefined ||
      (/^[0-9]{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= (family === 4 ? 32 : 128)))
}

/** Returns true for addresses and names that only this machine can reach. */
export function isLoopback (host: string): boolean {
  const family = isIP(host)
  return family === 0 ? /^(?:.+\.)?localhost$/i.test(host) : loopback.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

import { type IncomingHttpHeaders } from 'node:http'
import { type Socket, BlockList, isIP } from 'node:net'
import { namedIpNetworks } from '../config/ip-networks.js'

/** Headers of a request and its connection, which both name the client. */
export interface RequestSource {
  readonly headers: IncomingHttpHeaders
  readonly socket: Socket
}

/** Returns true for the address of a proxy whose X-Forwarded-For is believed. */
export type TrustedProxyCheck = (address: string | undefined) => boolean

/**
 * Returns the client's address as the first trusted proxy reports it, without trusted proxies that of the connection.
 * Prints IPv4-mapped IPv6 as IPv4, without a zone index (RFC 4007, section 11.2).
 */
export function clientAddressOf (
  { headers, socket: { remoteAddress } }: RequestSource,
  isTrusted?: TrustedProxyCheck
): string | undefined {
  const forwarded = isTrusted === undefined ? undefined : headers['x-forwarded-for']
  if (isTrusted === undefined || typeof forwarded !== 'string') return parseAddress(remoteAddress)
  // Reads addresses from the end, since each proxy appends the address of its own client.
  const hops = forwarded.split(',').map(hop => hop.trim()).filter(hop => hop !== '').reverse()
  const reported = [remoteAddress, ...hops].find((hop, at) => at === hops.length || !isTrusted(hop))
  return parseAddress(reported) ?? parseAddress(remoteAddress)
}

/** Returns the network at the other end of a connection; undefined for a unix socket. */
export function peerNetworkOf ({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string | undefined {
  return networkOf(parseAddress(remoteAddress))
}

/** Returns the network that limits and fair queueing count as one client: an IPv4 address or an IPv6 /64 (RFC 6177). */
export function networkOf (address: string | undefined): string | undefined {
  return address?.includes(':') === true ? prefixOf(address) : address
}

function prefixOf (address: string): string {
  const [before = [], after = []] = address.split('::').map(half => half === '' ? [] : half.split(':'))
  const zeros = address.includes('::') ? Array.from({ length: 8 - before.length - after.length }, () => '0') : []
  // Normalises each group, because a proxy may write an address in any form.
  return `${
    [...before, ...zeros, ...after].slice(0, 4).map(group => Number.parseInt(group, 16).toString(16)).join(':')
  }::/64`
}

/** Returns a check for trusted proxies, given as addresses, networks or names of networks. */
export function trustedProxyCheck (trusted: readonly string[]): TrustedProxyCheck {
  const trustsUnix = trusted.includes('unix')
  const list = new BlockList()
  for (const network of trusted.flatMap(entry => namedIpNetworks[entry] ?? [entry])) {
    const [base = '', bits] = network.split('/')
    const address = canonicalAddress(base) ?? base
    // Subtracts the 96-bit prefix of an IPv4-mapped IPv6 network.
    const mappedBits = familyOf(address) === familyOf(base) ? 0 : 96
    const prefix = Number(bits ?? (familyOf(base) === 'ipv6' ? 128 : 32)) - mappedBits
    list.addSubnet(address, Math.max(0, prefix), familyOf(address))
  }
  return text => {
    if (text === undefined) return trustsUnix
    const address = parseAddress(text)
    return address !== undefined && list.check(address, familyOf(address))
  }
}

/** Parses an address in X-Forwarded-For, to which some proxies add the port, or write "unknown". */
export function parseAddress (text: string | undefined): string | undefined {
  return canonicalAddress(text?.replace(/^\[(.*)\](?::[0-9]+)?$/, '$1').replace(/^([0-9.]+):[0-9]+$/, '$1'))
}

/** Removes a zone index (RFC 4007, section 11.2) and converts IPv4-mapped IPv6 to IPv4. */
function canonicalAddress (text: string | undefined): string | undefined {
  const [address = ''] = text?.split('%', 1) ?? []
  if (isIP(address) === 0) return undefined
  const mapped = /^::ffff:(?:([0-9.]+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(address)
  if (mapped === null) return address
  const [, dotted, high = '', low = ''] = mapped
  return dotted ??
    [high, low].flatMap(group => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]).join('.')
}

function familyOf (address: string): 'ipv4' | 'ipv6' {
  return address.includes(':') ? 'ipv6' : 'ipv4'
}

import { type Socket } from 'node:net'
import { type FastifyRequest } from 'fastify'
import { parseAddress } from './trusted-proxy-matcher.js'

/** Source of a request: `ip` as trusted proxies report it, and the connection's own address. */
export type RequestSource = Pick<FastifyRequest, 'ip' | 'socket'>

/** Returns the client's address: IPv4-mapped IPv6 as IPv4, without a zone index (RFC 4007, section 11.2). */
export function clientAddressOf ({ ip, socket }: RequestSource): string | undefined {
  return parseAddress(ip) ?? parseAddress(socket.remoteAddress)
}

/** Returns the network that limits and fair queueing count as one client: an IPv4 address or an IPv6 /64 (RFC 6177). */
export function clientNetworkOf (request: RequestSource): string | undefined {
  return networkOf(clientAddressOf(request))
}

/** Returns the network at the other end of a connection; undefined for a unix socket. */
export function peerNetworkOf ({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string | undefined {
  return networkOf(parseAddress(remoteAddress))
}

function networkOf (address: string | undefined): string | undefined {
  return address?.includes(':') === true ? prefixOf(address) : address
}

function prefixOf (address: string): string {
  const [before = [], after = []] = address.split('::').map(half => half === '' ? [] : half.split(':'))
  const zeros = address.includes('::') ? Array.from({ length: 8 - before.length - after.length }, () => '0') : []
  // Normalises each group: a proxy may write an address in any form.
  return `${
    [...before, ...zeros, ...after].slice(0, 4).map(group => Number.parseInt(group, 16).toString(16)).join(':')
  }::/64`
}

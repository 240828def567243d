import { type FastifyRequest } from 'fastify'
import { addressIn } from './proxies.js'

/**
 * A request as far as it tells where it comes from: `ip` as proxies that are believed say, and as its connection shows
 * it.
 */
export type Coming = Pick<FastifyRequest, 'ip' | 'socket'>

/**
 * The address of whoever sent a request; an IPv4 address in the clothes of IPv6 is shown as what it is, and no
 * interface of this machine (RFC 4007, section 11.2).
 */
export function addressOf ({ ip, socket }: Coming): string | undefined {
  return addressIn(ip) ?? addressIn(socket.remoteAddress)
}

/**
 * Who takes turns with others: an address, or the half of it that is given to one customer, who has all of the other
 * half (RFC 6177).
 */
export function clientOf (request: Coming): string | undefined {
  const address = addressOf(request)
  return address?.includes(':') === true ? prefixOf(address) : address
}

function prefixOf (address: string): string {
  const [before = [], after = []] = address.split('::').map(half => half === '' ? [] : half.split(':'))
  const zeros = address.includes('::') ? Array.from({ length: 8 - before.length - after.length }, () => '0') : []
  // Who is behind a proxy may have been written in any spelling.
  return `${
    [...before, ...zeros, ...after].slice(0, 4).map(group => Number.parseInt(group, 16).toString(16)).join(':')
  }::/64`
}

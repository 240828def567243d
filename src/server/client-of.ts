import { type IncomingMessage } from 'node:http'

/** The address of whoever sent a request, as the connection shows it; an IPv4 address in the clothes of IPv6 is shown as what it is. */
export function addressOf ({ socket }: IncomingMessage): string | undefined {
  return socket.remoteAddress?.replace(/^::ffff:(?=[0-9.]+$)/, '')
}

/** Who takes turns with others: an address, or the half of it that is given to one customer, who has all of the other half (RFC 6177). */
export function clientOf (request: IncomingMessage): string | undefined {
  const address = addressOf(request)
  return address?.includes(':') === true ? prefixOf(address) : address
}

function prefixOf (address: string): string {
  const [before = [], after = []] = address.split('::').map(half => half === '' ? [] : half.split(':'))
  const zeros = address.includes('::') ? Array.from({ length: 8 - before.length - after.length }, () => '0') : []
  return `${[...before, ...zeros, ...after].slice(0, 4).join(':')}::/64`
}

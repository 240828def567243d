import { BlockList, isIP } from 'node:net'
import { namedNetworks } from '../config/networks.js'

/**
 * Whether what stands at an address is one of the proxies that are believed, by addresses, networks and names of
 * networks.
 */
export function believes (trusted: readonly string[]): (written: string) => boolean {
  const list = new BlockList()
  for (const network of trusted.flatMap(text => namedNetworks[text] ?? [text])) {
    const [written = '', bits] = network.split('/')
    const address = plainAddress(written) ?? written
    // Of IPv4 in the clothes of IPv6 the first 96 bits are the clothes.
    const clothes = familyOf(address) === familyOf(written) ? 0 : 96
    list.addSubnet(
      address,
      bits === undefined ? wholeOf(address) : Math.max(0, Number(bits) - clothes),
      familyOf(address)
    )
  }
  return written => {
    const address = addressIn(written)
    return address !== undefined && list.check(address, familyOf(address))
  }
}

/** The address in what a proxy has written: some add the port, and some write "unknown" where they know none. */
export function addressIn (written: string | undefined): string | undefined {
  return plainAddress(written?.replace(/^\[(.*)\](?::[0-9]+)?$/, '$1').replace(/^([0-9.]+):[0-9]+$/, '$1'))
}

/**
 * An address without an interface of a machine (RFC 4007, section 11.2), one of IPv4 in the clothes of IPv6 as what it
 * is.
 */
function plainAddress (text: string | undefined): string | undefined {
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

function wholeOf (address: string): number {
  return familyOf(address) === 'ipv6' ? 128 : 32
}

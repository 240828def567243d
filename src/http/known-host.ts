import { isIP } from 'node:net'

/**
 * Returns true if a loopback listener trusts a Host header. DNS rebinding sends the attacker's name, never an
 * address, localhost or a configured name.
 */
export function isKnownHost (host: string, names: readonly string[]): boolean {
  const [, bracketed, plain = ''] = /^(?:\[([^\]]*)\]|([^:[\]]+))(?::[0-9]*)?$/.exec(host) ?? []
  if (bracketed !== undefined) return isIP(bracketed) === 6
  const name = plain.toLowerCase()
  return isIP(name) === 4 || name === 'localhost' || names.some(known => known.toLowerCase() === name)
}

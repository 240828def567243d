import { isIP } from 'node:net'

/**
 * Tells whether a loopback listener believes a Host header. A page can point a name of its own at 127.0.0.1 (DNS
 * rebinding); the browser then sends that name, and never an address, localhost or a name of ours.
 */
export function isKnownHost (host: string, names: readonly string[]): boolean {
  const [, bracketed, plain = ''] = /^(?:\[([^\]]*)\]|([^:[\]]+))(?::[0-9]*)?$/.exec(host) ?? []
  if (bracketed !== undefined) return isIP(bracketed) === 6
  const name = plain.toLowerCase()
  return isIP(name) === 4 || name === 'localhost' || names.some(known => known.toLowerCase() === name)
}

import { type IncomingHttpHeaders } from 'node:http'
import { classOf, type Read } from '../api/read.js'

/** Returns true for a latest read whose client accepts no older response (RFC 9111, section 5.2.1.4). */
export function bypassesFollowing (read: Read, headers: IncomingHttpHeaders): boolean {
  const directives = headers['cache-control']
  return directives !== undefined && classOf(read) === 'moving' && /\bno-cache\b/i.test(directives)
}

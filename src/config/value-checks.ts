import { accessSync, constants, statSync } from 'node:fs'

/** Returns true for a header without a value; a scheme without a key, such as `Bearer `, is no credential. */
export function isEmptyHeader (name: string, value: string): boolean {
  return /^(?:proxy-)?authorization$/i.test(name)
    ? /^\s*(?:(?:bearer|basic|token)\s*)?$/i.test(value)
    : value.trim() === ''
}

/** Accepts a redis or rediss URL with a host. */
export function isRedisUrl (text: string): boolean {
  return /^rediss?:\/\/[^/]/.test(text) && URL.canParse(text)
}

/** Accepts an origin as browsers send it: in lower case without path and default port, as the comparison is exact. */
export function isOrigin (text: string): boolean {
  return text === 'null' || (URL.canParse(text) && new URL(text).origin === text)
}

/** Accepts the path of a file that this process can read. */
export function isReadable (file: string): boolean {
  try {
    accessSync(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}

/** Accepts the path of a folder that exists, or that a start can make. */
export function isFolderOrNew (path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return true
  }
}

/** Returns the mistake of a path that begins with ~, which only shells expand; undefined for any other. */
export function tildeMistake (path: string): string | undefined {
  return path.startsWith('~') ? 'expected an absolute path: varve does not expand ~' : undefined
}

/** Splits HOST:PORT; the brackets of an IPv6 host are removed. */
export function hostAndPort (text: string): { host: string, port: number } {
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) }
}

/** Accepts HOST:PORT, with an IPv6 host in brackets. */
export function isAddress (text: string): boolean {
  // Excludes the characters that separate a host from credentials.
  return /^(?:\[[0-9a-fA-F:.]+\]|[\p{L}\p{N}_.-]+):[0-9]{1,5}$/u.test(text) && hostAndPort(text).port <= 65_535
}

// Longer paths do not fit the address of a socket on Linux; macOS takes 103 bytes.
const maxSocketPathBytes = 107

/** Returns the path of a unix socket, given as unix:PATH; undefined for any other address. */
export function socketPathOf (text: string): string | undefined {
  const [, path] = /^unix:(\/[^\0]*[^/\0])$/.exec(text) ?? []
  return path !== undefined && Buffer.byteLength(path) <= maxSocketPathBytes ? path : undefined
}

/** Returns true if a Redis server, a cluster or sentinels are configured. */
export function hasRedis (
  { url, cluster, sentinel }: {
    readonly url: string | null,
    readonly cluster: readonly string[],
    readonly sentinel: { readonly name: string | null }
  }
): boolean {
  return url !== null || cluster.length > 0 || sentinel.name !== null
}

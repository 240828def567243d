import { accessSync, constants } from 'node:fs'

/** Returns true for a header without a value; a scheme without a key, such as `Bearer `, is no credential. */
export function isEmptySecret (name: string, value: string): boolean {
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

import { validateHeaderName, validateHeaderValue } from 'node:http'

/**
 * Prints headers for the wire, validated as Node.js does for each response; done once for many responses. Omits
 * content-length, which Node.js must see itself; returns undefined if a header is invalid.
 */
export function printHeaders (rawHeaders: readonly string[]): string | undefined {
  // Joins once, because repeated concatenation builds a V8 rope, which is flattened on every write.
  const pieces = new Array<string>(rawHeaders.length * 2).fill('')
  try {
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]]
      validateHeaderName(name)
      validateHeaderValue(name, value)
      if (name === 'content-length') continue
      pieces[at * 2] = name
      pieces[at * 2 + 1] = ': '
      pieces[at * 2 + 2] = value
      pieces[at * 2 + 3] = '\r\n'
    }
  } catch {
    return undefined
  }
  return pieces.join('')
}

/** Joins two texts of printed headers; undefined if either is invalid. */
export function joinPrinted (first: string | undefined, second: string | undefined): string | undefined {
  return first === undefined || second === undefined ? undefined : first + second
}

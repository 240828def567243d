// Patterns of what Node.js accepts, because its own checks take longer than the printing; a test compares both.
const validName = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/
const invalidInValue = /[^\t\x20-\x7e\x80-\xff]/

/**
 * Prints headers for the wire, validated as Node.js does for each response; done once for many responses. Omits
 * content-length, which Node.js must see itself; returns undefined if a header is invalid.
 */
export function printHeaders (rawHeaders: readonly string[]): string | undefined {
  // Joins once, because repeated concatenation builds a V8 rope, which is flattened on every write.
  const pieces: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]]
    if (!validName.test(name) || invalidInValue.test(value)) return undefined
    if (name !== 'content-length') pieces.push(name, ': ', value, '\r\n')
  }
  return pieces.join('')
}

/** Joins two texts of printed headers; undefined if either is invalid. */
export function joinPrinted (first: string | undefined, second: string | undefined): string | undefined {
  return first === undefined || second === undefined ? undefined : first + second
}

/**
 * Copies a latin1 header text into one flat string. V8 ropes keep their pieces alive and are flattened on every write.
 */
export function flattenHeader (text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}

const addressBytes = 32
// Covers the longest length that BCS allows.
const maxLengthBytes = 5

/**
 * Returns the unchanged bytes of each module in a BCS listing: address, name and bytecode; undefined for any other body
 * (docs/node-behaviour.md, "BCS").
 */
export function modulesInBcs (body: Buffer): string[] | undefined {
  const count = lengthAt(body, 0)
  if (count === undefined) return undefined
  const modules: string[] = []
  let from = count.end
  while (modules.length < count.value) {
    const name = lengthAt(body, from + addressBytes)
    const code = name && lengthAt(body, name.end + name.value)
    const end = code && code.end + code.value
    if (end === undefined || end > body.length) return undefined
    modules.push(body.toString('latin1', from, end))
    from = end
  }
  return from === body.length ? modules : undefined
}

/** Reads a ULEB128 length, low seven bits first, and returns its value and end; undefined if it is invalid. */
export function lengthAt (body: Buffer, from: number): { value: number, end: number } | undefined {
  let value = 0
  for (let at = 0; at < maxLengthBytes; at++) {
    const byte = body[from + at]
    if (byte === undefined) return undefined
    value += (byte & 0x7f) * 2 ** (7 * at)
    if (byte < 0x80) return { value, end: from + at + 1 }
  }
  return undefined
}

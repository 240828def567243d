const addressBytes = 32
// Enough for every length that BCS allows.
const maxLengthBytes = 5

/**
 * The modules of a listing in BCS, each as it stands: an address, a name and the bytecode; undefined for what is no
 * such listing.
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

/** A length at a place, and where it ends: ULEB128, the low seven bits first. */
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

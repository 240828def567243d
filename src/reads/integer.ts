const maxU64 = 2n ** 64n - 1n

/** An unsigned integer as nodes parse it: leading zeros and one leading `+` are fine, nothing else is (facts, section 4). */
export function readUnsigned (text: string, max: bigint): bigint | undefined {
  if (!/^\+?[0-9]+$/.test(text)) return undefined
  // BigInt takes quadratic time, so a text of a hundred thousand zeros is trimmed before it is read.
  const digits = text.replace(/^\+?0*(?=[0-9])/, '')
  if (digits.length > 78) return undefined
  const value = BigInt(digits)
  return value <= max ? value : undefined
}

/** A signed integer of so many bits, in the same spellings and with `-`. */
export function readSigned (text: string, bits: bigint): bigint | undefined {
  const limit = 2n ** (bits - 1n)
  if (!text.startsWith('-')) return readUnsigned(text, limit - 1n)
  if (text.startsWith('-+')) return undefined
  const magnitude = readUnsigned(text.slice(1), limit)
  return magnitude === undefined ? undefined : -magnitude
}

/** Ledger versions, sequence numbers and other 64-bit texts. */
export const readU64 = (text: string): bigint | undefined => readUnsigned(text, maxU64)

/** Page limits. */
export const readU16 = (text: string): bigint | undefined => readUnsigned(text, 65535n)

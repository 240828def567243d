const plus = 0x2b
const zero = 0x30
const nine = 0x39

/** Reads an unsigned integer as nodes do, allowing leading zeros and one `+` (docs/node-behaviour.md, "Integers"). */
function readUnsigned (text: string, max: string): bigint | undefined {
  const digits = digitsIn(text, max)
  return digits === undefined ? undefined : BigInt(digits)
}

/** Reads ledger versions, sequence numbers and other 64-bit texts; undefined if the text is invalid. */
export const readU64 = (text: string): bigint | undefined => readUnsigned(text, '18446744073709551615')

/** Reads page limits; undefined if the text is invalid. */
export const readU16 = (text: string): bigint | undefined => readUnsigned(text, '65535')

/**
 * Returns a normaliser for integers of at least 64 bits, which leaves invalid text unchanged. Returns undefined for
 * other types: narrower integers are JSON numbers, compared as text.
 */
export function integerNormaliser (typeName: string): ((text: string) => string) | undefined {
  const [, sign, width] = /^([ui])(64|128|256)$/.exec(typeName) ?? []
  if (width === undefined) return undefined
  const bits = BigInt(width)
  if (sign === 'u') return unsignedUpTo(2n ** bits - 1n)
  const [positive, lowest] = [unsignedUpTo(2n ** (bits - 1n) - 1n), String(2n ** (bits - 1n))]
  return text => {
    if (!text.startsWith('-')) return positive(text)
    const digits = text.startsWith('-+') ? undefined : digitsIn(text.slice(1), lowest)
    return digits === undefined ? text : digits === '0' ? '0' : `-${digits}`
  }
}

function unsignedUpTo (max: bigint): (text: string) => string {
  const most = String(max)
  return text => digitsIn(text, most) ?? text
}

/**
 * Returns the digits without leading zeros; undefined if the text is invalid or above `max`. Avoids BigInt, which takes
 * quadratic time and is too slow for a key with a hundred thousand integers.
 */
function digitsIn (text: string, max: string): string | undefined {
  let from = text.charCodeAt(0) === plus ? 1 : 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < zero || code > nine) return undefined
  }
  while (from < text.length - 1 && text.charCodeAt(from) === zero) from++
  const digits = text.slice(from)
  return digits !== '' && (digits.length < max.length || (digits.length === max.length && digits <= max))
    ? digits
    : undefined
}

const plus = 0x2b
const zero = 0x30
const nine = 0x39

/**
 * Reads an unsigned integer as nodes do, with leading zeros and one `+`: docs/node-behaviour.md, "Integers".
 */
function readUnsigned (text: string, max: string): bigint | undefined {
  const digits = digitsIn(text, max)
  return digits === undefined ? undefined : BigInt(digits)
}

/** Ledger versions, sequence numbers and other 64-bit texts. */
export const readU64 = (text: string): bigint | undefined => readUnsigned(text, '18446744073709551615')

/** Page limits. */
export const readU16 = (text: string): bigint | undefined => readUnsigned(text, '65535')

/**
 * Spells an integer of a wide type in one way, any other text as it is; undefined for other types: the narrow ones are
 * numbers, compared as text.
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
 * The digits without leading zeros; not by way of BigInt, which takes quadratic time, and too long for each of a
 * hundred thousand.
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

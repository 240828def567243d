/** The largest u64. */
export const maxU64 = 2n ** 64n - 1n

/**
 * Reads an integer as nodes do: leading zeros and a leading plus are valid, blanks and points are not. Returns the
 * error message of the nodes' own parser if the text is invalid.
 */
export function readInteger (text: string, min: bigint, max: bigint): bigint | string {
  if (text === '') return 'cannot parse integer from empty string'
  const pattern = min < 0n ? /^[+-]?[0-9]+$/ : /^\+?[0-9]+$/
  if (!pattern.test(text)) return 'invalid digit found in string'
  const value = BigInt(text.replace(/^\+/, ''))
  if (value > max) return 'number too large to fit in target type'
  return value < min ? 'number too small to fit in target type' : value
}

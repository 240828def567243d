const [zero, nine, lowerA, lowerF] = [0x30, 0x39, 0x61, 0x66]

/**
 * Reads an address, with or without `0x`, as 64 lower-case hex digits; undefined if it is invalid
 * (docs/node-behaviour.md, "Addresses").
 */
export function readAddress (text: string): string | undefined {
  return padded(text.startsWith('0x') ? text.slice(2) : text)
}

/** Reads an address inside a type tag, where the prefix is required and may be `0X`; undefined if it is invalid. */
export function readTagAddress (text: string): string | undefined {
  return /^0[xX]/.test(text) ? padded(text.slice(2)) : undefined
}

/** Returns the form that nodes print, without leading zeros. */
export function shortAddress (digits: string): string {
  return '0x' + digits.replace(/^0{1,63}/, '')
}

/** Returns the short form of an address with any case, prefix and zeros; other text is returned unchanged. */
export function shortAddressOf (text: string): string {
  let from = text.startsWith('0x') ? 2 : 0
  if (text.length === from || text.length > from + 64) return text
  for (let at = from; at < text.length; at++) if (!isHexDigit(text.charCodeAt(at))) return text
  while (from < text.length - 1 && text.charCodeAt(from) === zero) from++
  return `0x${text.slice(from).toLowerCase()}`
}

function isHexDigit (code: number): boolean {
  return (code >= zero && code <= nine) || ((code | 0x20) >= lowerA && (code | 0x20) <= lowerF)
}

function padded (digits: string): string | undefined {
  return /^[0-9a-fA-F]{1,64}$/.test(digits) ? digits.toLowerCase().padStart(64, '0') : undefined
}

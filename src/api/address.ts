const [zero, nine, lowerA, lowerF] = [0x30, 0x39, 0x61, 0x66]

/**
 * Reads an address, with `0x` or without, as 64 lower-case hex digits: docs/node-behaviour.md, "Addresses".
 */
export function readAddress (text: string): string | undefined {
  return padded(text.startsWith('0x') ? text.slice(2) : text)
}

/** The same for an address inside a tag, where the prefix is required and may be `0X`. */
export function readTagAddress (text: string): string | undefined {
  return /^0[xX]/.test(text) ? padded(text.slice(2)) : undefined
}

/** The form that nodes print: no leading zeros. */
export function shortAddress (digits: string): string {
  return '0x' + digits.replace(/^0{1,63}/, '')
}

/** The same form for an address in any spelling; any other text as it is. */
export function normaliseAddress (text: string): string {
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

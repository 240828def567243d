/** The 64 hex digits, lower case, of an address in any spelling; the prefix is optional and its x lower case (facts, section 4). */
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

function padded (digits: string): string | undefined {
  return /^[0-9a-fA-F]{1,64}$/.test(digits) ? digits.toLowerCase().padStart(64, '0') : undefined
}

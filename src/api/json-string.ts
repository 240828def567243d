const controls: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
const needsEscape = /["\\\p{Cc}]/u

/**
 * Returns the value of a valid JSON string. `JSON.parse` costs a microsecond a call and hashes short strings without a
 * secret seed.
 */
export function unescapeJson (text: string): string {
  let value = ''
  let copiedTo = 1
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', copiedTo)) {
    const letter = text.charAt(at + 1)
    const to = letter === 'u' ? at + 6 : at + 2
    const sign = letter === 'u'
      ? String.fromCharCode(Number.parseInt(text.slice(at + 2, to), 16))
      : controls[letter] ?? letter
    value += text.slice(copiedTo, at) + sign
    copiedTo = to
  }
  return value + text.slice(copiedTo, -1)
}

/**
 * Returns the JSON of a text. `JSON.stringify` costs ten times as much for a short text, and a key may contain hundreds
 * of thousands.
 */
export function quoteJson (text: string): string {
  return needsEscape.test(text) ? JSON.stringify(text) : `"${text}"`
}

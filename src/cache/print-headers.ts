import { validateHeaderName, validateHeaderValue } from 'node:http'

/**
 * Header lines as they go onto the wire, checked as Node checks them: done once for what many answers have in common,
 * where Node would check and print each line of each answer. Without the length, which Node wants to see for itself;
 * undefined where it would refuse a line.
 */
export function printHeaders (rawHeaders: readonly string[]): string | undefined {
  // Of pieces that are joined once: a text that grows by them would be put together from pieces for ever.
  const pieces = new Array<string>(rawHeaders.length * 2).fill('')
  try {
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]]
      validateHeaderName(name)
      validateHeaderValue(name, value)
      if (name === 'content-length') continue
      pieces[at * 2] = name
      pieces[at * 2 + 1] = ': '
      pieces[at * 2 + 2] = value
      pieces[at * 2 + 3] = '\r\n'
    }
  } catch {
    return undefined
  }
  return pieces.join('')
}

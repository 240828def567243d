/** The two representations that nodes have. */
export type Accept = 'json' | 'bcs'

/** The media type of each, sent upstream as the whole of Accept. */
export const mediaTypes: Record<Accept, string> = { json: 'application/json', bcs: 'application/x-bcs' }

/**
 * A list's item or a line's value without the blanks that may stand around it (RFC 9110, section 5.6.3): `trim` would
 * take off more, such as a byte A0, and a pattern would take quadratic time where there are many.
 */
export function trimBlanks (text: string): string {
  let from = 0
  let to = text.length
  while (isBlank(text[from])) from++
  while (to > from && isBlank(text[to - 1])) to--
  return text.slice(from, to)
}

function isBlank (char: string | undefined): boolean {
  return char === ' ' || char === '\t'
}

/**
 * Reads the representation that Accept means to a node: the first item that is exactly one of the two types. An item
 * with a parameter never matches, so q does not matter (docs/node-behaviour.md, "Accept").
 */
export function readAccept (header: string | undefined): Accept {
  for (const item of (header ?? '').split(',')) {
    const type = trimBlanks(item).toLowerCase()
    if (type === mediaTypes.json) return 'json'
    if (type === mediaTypes.bcs) return 'bcs'
  }
  return 'json'
}

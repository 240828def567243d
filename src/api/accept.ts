/** Representations of a response body (docs/node-behaviour.md, "Accept"). */
export type Accept = 'json' | 'bcs'

/** Media type of each representation, sent upstream as the whole Accept header. */
export const mediaTypes: Record<Accept, string> = { json: 'application/json', bcs: 'application/x-bcs' }

/**
 * Removes optional whitespace around a list item or header value (RFC 9110, section 5.6.3). `trim` would also remove
 * byte A0, and a pattern could take quadratic time.
 */
export function trimOws (text: string): string {
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
 * Returns the representation that nodes choose: the first item that is exactly one of the two types. An item with a
 * parameter never matches, so q does not matter (docs/node-behaviour.md, "Accept").
 */
export function readAccept (header: string | undefined): Accept {
  for (const item of (header ?? '').split(',')) {
    const type = trimOws(item).toLowerCase()
    if (type === mediaTypes.json) return 'json'
    if (type === mediaTypes.bcs) return 'bcs'
  }
  return 'json'
}

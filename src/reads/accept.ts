/** The two representations that nodes have. */
export type Accept = 'json' | 'bcs'

/** The media type of each, sent upstream as the whole of Accept. */
export const mediaTypes: Record<Accept, string> = { json: 'application/json', bcs: 'application/x-bcs' }

/**
 * Which representation a client's Accept means to a node: the first item that is exactly one of the two types.
 * An item with any parameter, q included, never matches there, so sorting by q cannot change which comes first (facts, section 3).
 */
export function readAccept (header: string | undefined): Accept {
  for (const item of (header ?? '').split(',')) {
    const type = item.trim().toLowerCase()
    if (type === mediaTypes.json) return 'json'
    if (type === mediaTypes.bcs) return 'bcs'
  }
  return 'json'
}

/** The two response formats. */
export type ResponseFormat = 'json' | 'bcs'

/**
 * Chooses the format by the first `Accept` item that is exactly one of the two types. An item with a parameter, such as
 * a weight, never matches.
 */
export function acceptedFormat (accept: string | undefined): ResponseFormat {
  for (const item of (accept ?? '').split(',')) {
    const type = item.trim().toLowerCase()
    if (type === 'application/json') return 'json'
    if (type === 'application/x-bcs') return 'bcs'
  }
  return 'json'
}

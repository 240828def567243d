/** The two forms of an answer. */
export type ResponseFormat = 'json' | 'bcs'

/**
 * Chooses the form: the first item that is exactly one of the two types, with no parameter, decides. Weights cannot
 * change this, as an item that carries one never is exactly a type.
 */
export function acceptedFormat (accept: string | undefined): ResponseFormat {
  for (const item of (accept ?? '').split(',')) {
    const type = item.trim().toLowerCase()
    if (type === 'application/json') return 'json'
    if (type === 'application/x-bcs') return 'bcs'
  }
  return 'json'
}

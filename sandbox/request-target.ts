/** Request target, split but not yet decoded. */
export interface RequestTarget {
  readonly path: string
  readonly query: string
}

// Characters that the HTTP layer of nodes accepts unencoded; the parser of Node.js rejects those beyond ASCII.
const pathPattern = /^[\u0021\u0022\u0024-\u003b\u003d\u0040-\u005f\u0061-\u007e]*$/
const queryPattern = /^[\u0021\u0024-\u003b\u003d\u003f-\u007e]*$/
const maxTargetLength = 65_534

/** Splits a raw target; returns the status of a response without a body if the target is invalid. */
export function readTarget (raw: string): RequestTarget | 400 | 414 {
  if (raw.length > maxTargetLength) return 414
  const local = raw.replace(/^https?:\/\/[^/?#]*(?=[/?]|$)/i, '')
  const queryStart = local.indexOf('?')
  const path = queryStart < 0 ? local : local.slice(0, queryStart)
  const query = queryStart < 0 ? '' : local.slice(queryStart + 1)
  if (!pathPattern.test(path) || !queryPattern.test(query)) return 400
  return { path, query }
}

/** Decodes `%xx` once; leaves invalid triples unchanged. */
export function decodePercent (text: string): string {
  const bytes = Buffer.from(text).toString('latin1')
  const decoded = bytes.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1').toString()
}

/** Decodes a query as a form, where a plus is a space; the first of repeated parameters wins. */
export function readQuery (query: string): Map<string, string> {
  const params = new Map<string, string>()
  for (const piece of query.split('&')) {
    if (piece === '') continue
    const valueStart = piece.indexOf('=')
    const name = decodeFormText(valueStart < 0 ? piece : piece.slice(0, valueStart))
    if (!params.has(name)) params.set(name, valueStart < 0 ? '' : decodeFormText(piece.slice(valueStart + 1)))
  }
  return params
}

function decodeFormText (text: string): string {
  return decodePercent(text.replaceAll('+', ' '))
}

/** A request target, cut but not yet decoded. */
export interface RequestTarget {
  readonly path: string
  readonly query: string
}

// What the nodes' HTTP layer lets through unencoded, in a path and in a query; beyond ASCII Node's own parser refuses
// it.
const pathPattern = /^[\u0021\u0022\u0024-\u003b\u003d\u0040-\u005f\u0061-\u007e]*$/
const queryPattern = /^[\u0021\u0024-\u003b\u003d\u003f-\u007e]*$/
const maxTargetLength = 65_534

/** Cuts a raw target; a number is the status of the bodyless answer that it gets instead. */
export function readTarget (raw: string): RequestTarget | 400 | 414 {
  if (raw.length > maxTargetLength) return 414
  const local = raw.replace(/^https?:\/\/[^/?#]*(?=[/?]|$)/i, '')
  const queryStart = local.indexOf('?')
  const path = queryStart < 0 ? local : local.slice(0, queryStart)
  const query = queryStart < 0 ? '' : local.slice(queryStart + 1)
  if (!pathPattern.test(path) || !queryPattern.test(query)) return 400
  return { path, query }
}

/** Decodes `%xx` once; what is no such triple stays as it is. */
export function decodePercent (text: string): string {
  const bytes = Buffer.from(text).toString('latin1')
  const decoded = bytes.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1').toString()
}

/** Decodes a query as a form, where a plus is a space; the first of equal names wins. */
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

/** A request target, cut but not yet decoded. */
export interface Target {
  readonly path: string
  readonly query: string
}

// What the nodes' HTTP layer lets through unencoded, in a path and in a query; beyond ASCII Node's own parser refuses
// it.
const pathBytes = /^[\u0021\u0022\u0024-\u003b\u003d\u0040-\u005f\u0061-\u007e]*$/
const queryBytes = /^[\u0021\u0024-\u003b\u003d\u003f-\u007e]*$/
const longest = 65_534

/** Cuts a raw target; a number is the status of the bodyless answer that it gets instead. */
export function readTarget (raw: string): Target | 400 | 414 {
  if (raw.length > longest) return 414
  const local = raw.replace(/^https?:\/\/[^/?#]*(?=[/?]|$)/i, '')
  const mark = local.indexOf('?')
  const path = mark < 0 ? local : local.slice(0, mark)
  const query = mark < 0 ? '' : local.slice(mark + 1)
  if (!pathBytes.test(path) || !queryBytes.test(query)) return 400
  return { path, query }
}

/** Decodes `%xx` once; what is no such triple stays as it is. */
export function percentDecoded (text: string): string {
  const bytes = Buffer.from(text).toString('latin1')
  const decoded = bytes.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1').toString()
}

/** Decodes a query as a form, where a plus is a space; the first of equal names wins. */
export function readQuery (query: string): Map<string, string> {
  const params = new Map<string, string>()
  for (const piece of query.split('&')) {
    if (piece === '') continue
    const mark = piece.indexOf('=')
    const name = formDecoded(mark < 0 ? piece : piece.slice(0, mark))
    if (!params.has(name)) params.set(name, mark < 0 ? '' : formDecoded(piece.slice(mark + 1)))
  }
  return params
}

function formDecoded (text: string): string {
  return percentDecoded(text.replaceAll('+', ' '))
}

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

/** Content codings that varve can send, preferred first: at equal weights br wins, because it compresses better. */
export const codings = ['br', 'gzip'] as const

/** A content coding that varve can send. */
export type Coding = typeof codings[number]

// Weights that Accept-Encoding states for the codings that matter here.
type Weights = Partial<Record<Coding | 'identity' | '*', number>>

/**
 * Returns the codings that a client accepts, best first; a coding that weighs less than identity is left out. Without
 * Accept-Encoding none is used, though RFC 9110, section 12.5.3, allows all: some clients cannot decode them.
 */
export function readAcceptEncoding (acceptEncoding: string | undefined): readonly Coding[] {
  if (acceptEncoding === undefined) return []
  const weights = readWeights(acceptEncoding)
  const br = weights.br ?? weights['*'] ?? 0
  const gzip = weights.gzip ?? weights['*'] ?? 0
  const plain = weights.identity ?? 0
  const takesBr = br > 0 && br >= plain
  const takesGzip = gzip > 0 && gzip >= plain
  if (takesBr && takesGzip) return br >= gzip ? codings : ['gzip', 'br']
  return takesBr ? ['br'] : takesGzip ? ['gzip'] : []
}

// Splits by hand, because this runs for every response and a pattern for each item took more than twice as long.
function readWeights (header: string): Weights {
  const weights: Weights = {}
  for (const item of header.toLowerCase().split(',')) {
    const semicolon = item.indexOf(';')
    const name = readCodingName((semicolon === -1 ? item : item.slice(0, semicolon)).trim())
    const weight = semicolon === -1 ? 1 : readWeight(item.slice(semicolon + 1).trim())
    if (name === undefined || weight === undefined) continue
    // Uses the lowest weight if a client lists a coding more than once.
    weights[name] = Math.min(weight, weights[name] ?? 1)
  }
  return weights
}

function readCodingName (text: string): keyof Weights | undefined {
  switch (text) {
    case 'br':
    case 'gzip':
    case 'identity':
    case '*':
      return text
    // Old name of gzip (RFC 9110, section 8.4.1.3).
    case 'x-gzip':
      return 'gzip'
    default:
      return undefined
  }
}

// Weights have at most three decimals (RFC 9110, section 12.4.2).
function readWeight (text: string): number | undefined {
  return /^q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(text) ? Number(text.slice('q='.length)) : undefined
}

/**
 * The content codings that answers can be sent in; of two that a client likes equally the first is taken, since it
 * packs tighter.
 */
export const codings = ['br', 'gzip'] as const

/** A content coding that answers can be sent in. */
export type Coding = typeof codings[number]

// What Accept-Encoding can say that matters here: how much a client likes each of these, where it says so.
type Weights = Partial<Record<Coding | 'identity' | '*', number>>

/**
 * Which codings a client takes, best first; never one that it did not ask for (RFC 9110, section 12.5.3), since some
 * clients cannot unpack it. A coding that it likes less than the plain body is left out.
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

// Cut up by hand: this runs for every answer, and one pattern over each whole item took more than twice as long.
function readWeights (header: string): Weights {
  const weights: Weights = {}
  for (const item of header.toLowerCase().split(',')) {
    const semicolon = item.indexOf(';')
    const name = readCodingName((semicolon === -1 ? item : item.slice(0, semicolon)).trim())
    const weight = semicolon === -1 ? 1 : readWeight(item.slice(semicolon + 1).trim())
    if (name === undefined || weight === undefined) continue
    // A client that contradicts itself is taken by its less willing word.
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
    // The same coding under its old name (RFC 9110, section 8.4.1.3).
    case 'x-gzip':
      return 'gzip'
    default:
      return undefined
  }
}

// At most three digits behind the point (RFC 9110, section 12.4.2).
function readWeight (text: string): number | undefined {
  return /^q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(text) ? Number(text.slice('q='.length)) : undefined
}

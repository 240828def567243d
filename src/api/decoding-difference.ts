import { itemRangesIn, membersIn, type ByteRange } from './json-scan.js'

/** JSON value as a span of a body. */
export interface JsonValue {
  readonly body: Buffer
  readonly span: ByteRange
}

const brace = 0x7b
const bracket = 0x5b
// Exceeds the depth of all that nodes print, and bounds the recursion to the thread's stack.
const maxDepth = 100

/** Returns the text of a value; empty without a span. */
export function textOf ({ body }: Pick<JsonValue, 'body'>, span: ByteRange | undefined): string {
  return span === undefined ? '' : body.toString('latin1', span.from, span.to)
}

/**
 * Returns true if two values differ only in how far they were decoded (docs/node-behaviour.md, "Rendering"). Allows a
 * missing member, change or event, hex against its decoded value, and null against a value. Other scalars must be
 * equal.
 */
export function differOnlyInDecoding (one: JsonValue, other: JsonValue, depth = 0): boolean {
  const [a, b] = [kindOf(one), kindOf(other)]
  if (a !== b) return true
  if (depth > maxDepth || a === 'scalar') return isSameOrDecoded(textOf(one, one.span), textOf(other, other.span))
  return a === 'array' ? haveItemsAlike(one, other, depth) : haveMembersAlike(one, other, depth)
}

function haveItemsAlike (one: JsonValue, other: JsonValue, depth: number): boolean {
  const [a, b] = [itemRangesIn(one.body, one.span), itemRangesIn(other.body, other.span)]
  return a !== undefined && b !== undefined &&
    (a.length !== b.length || a.every((span, at) => isAlike(one, span, other, b[at], depth)))
}

function haveMembersAlike (one: JsonValue, other: JsonValue, depth: number): boolean {
  const [a, b] = [membersIn(one.body, one.span), membersIn(other.body, other.span)]
  if (a === undefined || b === undefined) return false
  // Event numbers depend on settings of the node, and failure texts on the modules at the head.
  const isFree = (name: string): boolean =>
    name === 'vm_status' || (a.has('guid') && (name === 'guid' || name === 'sequence_number'))
  return [...a].every(([name, span]) => isFree(name) || isAlike(one, span, other, b.get(name), depth))
}

function isAlike (one: JsonValue, a: ByteRange, other: JsonValue, b: ByteRange | undefined, depth: number): boolean {
  return b === undefined || differOnlyInDecoding({ body: one.body, span: a }, { body: other.body, span: b }, depth + 1)
}

function kindOf ({ body, span }: JsonValue): 'object' | 'array' | 'scalar' {
  const first = body[span.from]
  return first === brace ? 'object' : first === bracket ? 'array' : 'scalar'
}

function isSameOrDecoded (one: string, other: string): boolean {
  return one === other || one === 'null' || other === 'null' || one.startsWith('"0x') !== other.startsWith('"0x')
}

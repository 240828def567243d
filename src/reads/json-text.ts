import { LosslessNumber, parse } from 'lossless-json'

/** A JSON document as a client wrote it: its text without blanks, and its value with every number kept as text. */
export interface JsonDocument { readonly text: string, readonly value: unknown }

// serde_json, which nodes read with, stops at 128 levels; the bound also keeps the recursion of parsers within the stack.
const maxDepth = 127

/** Reads JSON strictly: undefined for what is not JSON, nests too deep, or repeats a member (which of the two would a node take?). */
export function readJson (bytes: Buffer): JsonDocument | undefined {
  try {
    const source = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const { text, depth, members } = scan(source)
    if (depth > maxDepth) return undefined
    const value = parse(source)
    // The library refuses a repeated member only where the two values differ; counting finds the rest.
    return membersOf(value) === members && isUnicode(value) ? { text, value } : undefined
  } catch {
    return undefined
  }
}

/** The text of each member of an object, in the client's own order, digits and escapes. */
export function memberTexts (document: JsonDocument): Map<string, string> {
  const members = new Map<string, string>()
  let depth = 0
  let from = 1
  let name = ''
  walk(document.text, (mark, at) => {
    if (mark === '{' || mark === '[') depth++
    if (depth === 1 && mark === ':') {
      name = JSON.parse(document.text.slice(from, at)) as string
      from = at + 1
    }
    if (depth === 1 && (mark === ',' || mark === '}')) {
      if (from < at) members.set(name, document.text.slice(from, at))
      from = at + 1
    }
    if (mark === '}' || mark === ']') depth--
  })
  return members
}

function scan (source: string): { text: string, depth: number, members: number } {
  let text = ''
  let from = 0
  let depth = 0
  let deepest = 0
  let members = 0
  walk(source, (mark, at) => {
    if (mark === '{' || mark === '[') deepest = Math.max(deepest, ++depth)
    else if (mark === '}' || mark === ']') depth--
    else if (mark === ':') members++
    else if (mark !== ',') {
      text += source.slice(from, at)
      from = at + 1
    }
  })
  return { text: text + source.slice(from), depth: deepest, members }
}

/** Visits every mark and blank that stands outside strings. */
function walk (text: string, visit: (mark: string, at: number) => void): void {
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (inString) {
      if (char === '\\') at++
      else if (char === '"') inString = false
    } else if (char === '"') inString = true
    else if ('{}[]:, \t\n\r'.includes(char)) visit(char, at)
  }
}

function membersOf (value: unknown): number {
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + membersOf(item), 0)
  if (!isObject(value)) return 0
  const items = Object.values(value)
  return items.reduce<number>((sum, item) => sum + membersOf(item), items.length)
}

// Half a surrogate pair is no character, and serde_json refuses it.
function isUnicode (value: unknown): boolean {
  if (typeof value === 'string') return !/[\ud800-\udfff]/u.test(value)
  if (Array.isArray(value)) return value.every(isUnicode)
  return !isObject(value) || Object.entries(value).every(([name, item]) => isUnicode(name) && isUnicode(item))
}

/** Whether a value read by this module is a JSON object; numbers are objects of a class of their own. */
export function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof LosslessNumber)
}

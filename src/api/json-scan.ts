import { readU64 } from './integer.js'

/** Bytes [from, to) of one JSON value, without blanks around it. */
export interface ByteRange {
  readonly from: number
  readonly to: number
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const backslash = 0x5c
const bracket = 0x5b
const brace = 0x7b
const nullStart = 0x6e

// Distance in ASCII from an opening bracket to its closing one.
const toClosing = 2

// Position in a broken text: it lies outside the text, so every later read fails too.
const brokenAt = -1

// Uses look-up tables, because one look-up for a byte is faster than a chain of comparisons.
const isBlank = tableOf(byte => ' \t\n\r'.includes(String.fromCharCode(byte)))
const isInWord = tableOf(byte => '+-.0123456789Eaeflnrstu'.includes(String.fromCharCode(byte)))
const isInString = tableOf(byte => byte >= 0x20 && byte !== quote && byte !== backslash)

function tableOf (holds: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => Number(holds(byte)))
}

/** Returns the members of an object by name; undefined if the span is no object, is broken or repeats a name. */
export function membersIn (bytes: Buffer, object: ByteRange = all(bytes)): Map<string, ByteRange> | undefined {
  const members = new Map<string, ByteRange>()
  const isWhole = walk(bytes, object, brace, (text, from) => {
    const name = stringIn(text, { from, to: stringEnd(text, from) })
    if (name === undefined || members.has(name)) return brokenAt
    const value = skipBlanks(text, nameEnd(text, from))
    const to = valueEnd(text, value)
    members.set(name, { from: value, to })
    return to
  })
  return isWhole ? members : undefined
}

/** Returns the items of an array; undefined if the span is no array or is broken. */
export function itemRangesIn (bytes: Buffer, array: ByteRange = all(bytes)): ByteRange[] | undefined {
  const items: ByteRange[] = []
  const isWhole = walk(bytes, array, bracket, (text, from) => {
    const to = valueEnd(text, from)
    items.push({ from, to })
    return to
  })
  return isWhole ? items : undefined
}

/**
 * Yields the items of an array one by one, up to the place where the array breaks; returns true if none of it is
 * broken.
 */
export function* eachItemIn (bytes: Buffer, { from, to }: ByteRange = all(bytes)): Generator<ByteRange, boolean> {
  const text = bytes.subarray(0, to)
  let at = skipBlanks(text, from)
  if (text[at] !== bracket) return false
  at = skipBlanks(text, at + 1)
  if (text[at] === bracket + toClosing) return skipBlanks(text, at + 1) === text.length
  for (;;) {
    const end = valueEnd(text, at)
    if (end === brokenAt) return false
    yield { from: at, to: end }
    const next = skipBlanks(text, end)
    if (text[next] !== comma) return text[next] === bracket + toClosing && skipBlanks(text, next + 1) === text.length
    at = skipBlanks(text, next + 1)
  }
}

/** Number of items in an array. */
export interface ItemCount {
  readonly all: number
  /** Items that are objects in which each of the given members is present and not null. */
  readonly complete: number
}

/** Counts the items of an array; undefined if the span is no array or is broken. */
export function countItems (
  bytes: Buffer,
  array: ByteRange = all(bytes),
  names: readonly string[] = []
): ItemCount | undefined {
  const quoted = names.map(name => Buffer.from(JSON.stringify(name)))
  // Avoids `itemRangesIn`: spans for 8 MB of the smallest items take 0.5 s and far more memory than the body.
  const count = { all: 0, complete: 0 }
  // Uses one bit for each name, and one bit for a repeated name, because clients may read either of its values.
  let found = 0
  const [wholeSet, repeated] = [2 ** quoted.length - 1, 2 ** quoted.length]
  const visitMember = (text: Buffer, at: number): number => {
    const name = stringEnd(text, at)
    const value = skipBlanks(text, nameEnd(text, at, name))
    for (let nth = 0; nth < quoted.length; nth++) {
      if (!isAt(text, at, name, quoted[nth]) || text[value] === nullStart) continue
      found |= (found & 2 ** nth) === 0 ? 2 ** nth : repeated
    }
    return valueEnd(text, value)
  }
  const isWhole = walk(bytes, array, bracket, (text, from) => {
    count.all++
    if (text[from] !== brace) return valueEnd(text, from)
    found = 0
    const to = nestEndOf(text, from, brace, visitMember)
    if (found === wholeSet) count.complete++
    return to
  })
  return isWhole ? count : undefined
}

/** Returns the value of a JSON string; undefined for any other value. */
export function stringIn (bytes: Buffer, string: ByteRange | undefined): string | undefined {
  if (string === undefined || bytes[string.from] !== quote) return undefined
  try {
    return JSON.parse(bytes.toString('utf8', string.from, string.to)) as string
  } catch {
    return undefined
  }
}

/** Returns true if a value is null. */
export function isNullIn (bytes: Buffer, value: ByteRange): boolean {
  return bytes[value.from] === nullStart
}

/** Returns the u64 of a JSON string of digits, as nodes print it; undefined for any other value. */
export function u64In (bytes: Buffer, string: ByteRange | undefined): bigint | undefined {
  const text = stringIn(bytes, string)
  return text === undefined || text.startsWith('+') ? undefined : readU64(text)
}

function all (bytes: Buffer): ByteRange {
  return { from: 0, to: bytes.length }
}

/** Visits each item of an array or object; `visit` returns the item's end. Returns false if anything is broken. */
function walk (
  bytes: Buffer,
  { from, to }: ByteRange,
  opening: number,
  visit: (text: Buffer, from: number) => number
): boolean {
  const text = bytes.subarray(0, to)
  const start = skipBlanks(text, from)
  return text[start] === opening && skipBlanks(text, nestEndOf(text, start, opening, visit)) === text.length
}

/** Visits each item of an array or object that begins at `from`; returns the end of the whole, or `brokenAt`. */
function nestEndOf (
  text: Buffer,
  from: number,
  opening: number,
  visit: (text: Buffer, from: number) => number
): number {
  let at = skipBlanks(text, from + 1)
  if (text[at] !== opening + toClosing) at = skipBlanks(text, visit(text, at))
  while (text[at] === comma) at = skipBlanks(text, visit(text, skipBlanks(text, at + 1)))
  return text[at] === opening + toClosing ? at + 1 : brokenAt
}

// Compares bytes in a loop, because a call of `compare` takes longer than a loop over such short names.
function isAt (text: Buffer, from: number, to: number, wanted: Buffer | undefined): boolean {
  if (to - from !== wanted?.length) return false
  for (let at = 0; at < wanted.length; at++) if (text[from + at] !== wanted[at]) return false
  return true
}

function valueEnd (text: Buffer, from: number): number {
  return isOpening(text[from]) ? nestEnd(text, from) : scalarEnd(text, from)
}

// Loops with its own stack, because deep nesting in a body would exhaust the thread's stack.
function nestEnd (text: Buffer, from: number): number {
  let closings = Buffer.alloc(64)
  let depth = 0
  let isValueNext = true
  let at = from
  for (;;) {
    at = skipBlanks(text, at)
    const byte = text[at]
    if (isValueNext && isOpening(byte)) {
      if (depth === closings.length) closings = Buffer.concat([closings], closings.length * 2)
      closings[depth++] = byte + toClosing
      at = skipBlanks(text, at + 1)
      isValueNext = text[at] !== byte + toClosing
      if (isValueNext && byte === brace) at = nameEnd(text, at)
    } else if (isValueNext) {
      at = scalarEnd(text, at)
      isValueNext = false
    } else if (byte === comma) {
      at++
      isValueNext = true
      if (closings[depth - 1] === brace + toClosing) at = nameEnd(text, skipBlanks(text, at))
    } else if (byte === closings[depth - 1]) {
      at++
      if (--depth === 0) return at
    } else return brokenAt
  }
}

function isOpening (byte: number | undefined): byte is number {
  return byte === brace || byte === bracket
}

function nameEnd (text: Buffer, from: number, stringTo = stringEnd(text, from)): number {
  const at = skipBlanks(text, stringTo)
  return text[at] === colon ? at + 1 : brokenAt
}

function scalarEnd (text: Buffer, from: number): number {
  if (text[from] === quote) return stringEnd(text, from)
  let at = from
  while (isInWord[text[at] ?? 0] === 1) at++
  return at === from ? brokenAt : at
}

function stringEnd (text: Buffer, from: number): number {
  if (text[from] !== quote) return brokenAt
  let at = from + 1
  for (;;) {
    while (isInString[text[at] ?? 0] === 1) at++
    if (text[at] !== backslash) return text[at] === quote ? at + 1 : brokenAt
    at += 2
  }
}

function skipBlanks (text: Buffer, from: number): number {
  let at = from
  while (isBlank[text[at] ?? 0] === 1) at++
  return at
}

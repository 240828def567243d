const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
// Rejects 128 levels, as nodes do (docs/node-behaviour.md, "Request bodies"); the limit also bounds the recursion.
const maxDepth = 127

const [tab, newLine, carriageReturn, blank, quote, backslash] = [0x09, 0x0a, 0x0d, 0x20, 0x22, 0x5c]
const [plus, comma, minus, point, zero, nine, colon] = [0x2b, 0x2c, 0x2d, 0x2e, 0x30, 0x39, 0x3a]
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d]
const [upperE, lowerE, lowerU] = [0x45, 0x65, 0x75]
const simpleEscapes = '"\\/bfnrt'

/** Members of a JSON object with the texts that the client sent. */
export class JsonObject {
  readonly #texts: ReadonlyMap<string, string>

  constructor (texts: ReadonlyMap<string, string>) {
    this.#texts = texts
  }

  /** Returns true if the object has no member besides the named ones. */
  hasOnly (names: readonly string[]): boolean {
    return this.#texts.size === names.filter(name => this.#texts.has(`"${name}"`)).length
  }

  /**
   * Returns the text of a member's value with digits and escapes unchanged and blanks dropped; undefined if there is no
   * such member.
   */
  textOf (name: string): string | undefined {
    const text = this.#texts.get(`"${name}"`)
    return text === undefined ? undefined : dropBlanks(text)
  }

  /** Returns the value of a member that is a JSON string; undefined for any other member. */
  stringOf (name: string): string | undefined {
    const text = this.#texts.get(`"${name}"`) ?? ''
    return text.startsWith('"') ? JSON.parse(text) as string : undefined
  }
}

/**
 * Reads one JSON object strictly; undefined for any other bytes. Rejects deep nesting and repeated members, because a
 * parser may use either of two equal names.
 */
export function readObject (bytes: Buffer): JsonObject | undefined {
  try {
    return new JsonObject(new JsonChecker(utf8.decode(bytes)).wholeObject())
  } catch {
    // Catches invalid UTF-8 and InvalidJsonError only: bounded nesting bounds the stack.
    return undefined
  }
}

/** Drops the blanks between the tokens of valid JSON. */
function dropBlanks (text: string): string {
  const bytes = Buffer.from(text)
  let isInString = false
  let to = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes.readUInt8(at)
    if (!isInString && isBlank(byte)) continue
    bytes[to++] = byte
    if (byte === quote) isInString = !isInString
    else if (byte === backslash) bytes[to++] = bytes.readUInt8(++at)
  }
  return to === bytes.length ? text : bytes.toString('utf8', 0, to)
}

/** Returns true for the code of whitespace between JSON tokens. */
function isBlank (code: number): boolean {
  return code === blank || code === newLine || code === carriageReturn || code === tab
}

class InvalidJsonError extends Error {}

/**
 * Checks a text in one pass without building values, which would dominate the cost of a large body. Objects with names
 * from clients would also allow hash flooding: V8 hashes names of digits without a secret seed.
 */
class JsonChecker {
  readonly #text: string
  #at = 0

  constructor (text: string) {
    this.#text = text
  }

  /** Returns the JSON text of each member by its quoted name. */
  wholeObject (): Map<string, string> {
    const texts = new Map<string, string>()
    if (this.#peek() !== openBrace) throw new InvalidJsonError()
    this.#object(1, texts)
    if (!Number.isNaN(this.#peek())) throw new InvalidJsonError()
    return texts
  }

  /** Returns the next code that is no blank, without consuming it; NaN at the end. */
  #peek (): number {
    let code = this.#text.charCodeAt(this.#at)
    while (isBlank(code)) code = this.#text.charCodeAt(++this.#at)
    return code
  }

  #value (depth: number): void {
    const code = this.#peek()
    if (code === quote) this.#string()
    else if (code === openBrace) this.#object(depth + 1)
    else if (code === openBracket) this.#array(depth + 1)
    else if (code === minus || isDigit(code)) this.#number()
    else this.#word()
  }

  #array (depth: number): void {
    if (depth > maxDepth) throw new InvalidJsonError()
    this.#at++
    if (this.#peek() === closeBracket) this.#at++
    else {
      do this.#value(depth)
      while (this.#hasMore(closeBracket))
    }
  }

  #object (depth: number, texts?: Map<string, string>): void {
    if (depth > maxDepth) throw new InvalidJsonError()
    this.#at++
    if (this.#peek() === closeBrace) {
      this.#at++
      return
    }
    // Avoids a set for objects of one member, because a body may contain thousands of such objects.
    let first: string | undefined
    let names: Set<string> | undefined
    do {
      const name = this.#name()
      if (first === undefined) first = name
      else if ((names ??= new Set([first])).size === names.add(name).size) throw new InvalidJsonError()
      if (this.#peek() !== colon) throw new InvalidJsonError()
      this.#at++
      this.#peek()
      const from = this.#at
      this.#value(depth)
      texts?.set(name, this.#text.slice(from, this.#at))
    } while (this.#hasMore(closeBrace))
  }

  /** Consumes the comma or the closing bracket after a value; returns true for a comma. */
  #hasMore (closing: number): boolean {
    const code = this.#peek()
    if (code !== comma && code !== closing) throw new InvalidJsonError()
    this.#at++
    return code === comma
  }

  /** Returns the unescaped name in quotes, which prevent V8 from hashing digits as a number. */
  #name (): string {
    if (this.#peek() !== quote) throw new InvalidJsonError()
    const from = this.#at
    const isEscaped = this.#string()
    const text = this.#text.slice(from, this.#at)
    return isEscaped ? `"${unescapeJson(text)}"` : text
  }

  /** Consumes a string; returns true if it contains an escape. */
  #string (): boolean {
    const text = this.#text
    let isEscaped = false
    let at = this.#at + 1
    for (let code = text.charCodeAt(at); code !== quote; code = text.charCodeAt(at)) {
      // Rejects control characters, which must be escaped, and NaN, which is the end of the text.
      if (!(code >= blank)) throw new InvalidJsonError()
      if (code === backslash) isEscaped = true
      at = code === backslash ? this.#escapeEnd(at + 1) : at + 1
    }
    this.#at = at + 1
    return isEscaped
  }

  #escapeEnd (at: number): number {
    if (this.#text.charCodeAt(at) !== lowerU) {
      if (at === this.#text.length || !simpleEscapes.includes(this.#text.charAt(at))) throw new InvalidJsonError()
      return at + 1
    }
    const unit = this.#unit(at + 1)
    if (unit < 0xd800 || unit > 0xdfff) return at + 5
    // Rejects half of a surrogate pair, as serde_json does in nodes.
    const isPair = unit < 0xdc00 && this.#text.startsWith('\\u', at + 5)
    const low = isPair ? this.#unit(at + 7) : 0
    if (low < 0xdc00 || low > 0xdfff) throw new InvalidJsonError()
    return at + 11
  }

  /** Returns the code unit of four hex digits. */
  #unit (from: number): number {
    let unit = 0
    for (let at = from; at < from + 4; at++) unit = unit * 16 + hexDigit(this.#text.charCodeAt(at))
    return unit
  }

  #number (): void {
    if (this.#text.charCodeAt(this.#at) === minus) this.#at++
    if (this.#text.charCodeAt(this.#at) === zero) this.#at++
    else this.#digits()
    if (this.#text.charCodeAt(this.#at) === point) {
      this.#at++
      this.#digits()
    }
    const code = this.#text.charCodeAt(this.#at)
    if (code !== lowerE && code !== upperE) return
    const sign = this.#text.charCodeAt(++this.#at)
    if (sign === plus || sign === minus) this.#at++
    this.#digits()
  }

  #digits (): void {
    const from = this.#at
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at++
    if (this.#at === from) throw new InvalidJsonError()
  }

  #word (): void {
    const word = ['true', 'false', 'null'].find(each => this.#text.startsWith(each, this.#at))
    if (word === undefined) throw new InvalidJsonError()
    this.#at += word.length
  }
}

function isDigit (code: number): boolean {
  return code >= zero && code <= nine
}

function hexDigit (code: number): number {
  if (isDigit(code)) return code - zero
  const letter = (code | 0x20) - 0x61
  if (letter >= 0 && letter < 6) return letter + 10
  throw new InvalidJsonError()
}

const controls: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
const needsEscape = /["\\\p{Cc}]/u

/**
 * Returns the value of a valid JSON string. Avoids `JSON.parse`, which costs a microsecond a call and hashes short
 * strings without a secret seed.
 */
export function unescapeJson (text: string): string {
  let value = ''
  let copiedTo = 1
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', copiedTo)) {
    const letter = text.charAt(at + 1)
    const to = letter === 'u' ? at + 6 : at + 2
    const sign = letter === 'u'
      ? String.fromCharCode(Number.parseInt(text.slice(at + 2, to), 16))
      : controls[letter] ?? letter
    value += text.slice(copiedTo, at) + sign
    copiedTo = to
  }
  return value + text.slice(copiedTo, -1)
}

/**
 * Returns the JSON of a text. Avoids `JSON.stringify`, which costs ten times as much for a short text: a key may
 * contain hundreds of thousands.
 */
export function quoteJson (text: string): string {
  return needsEscape.test(text) ? JSON.stringify(text) : `"${text}"`
}

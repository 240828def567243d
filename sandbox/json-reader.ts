import { malformed } from './problem.js'

/** A JSON value with its numbers as text and its members in order, as nodes keep them. */
export type Json =
  | { readonly kind: 'null' }
  | { readonly kind: 'bool', readonly value: boolean }
  | { readonly kind: 'number', readonly text: string }
  | { readonly kind: 'string', readonly value: string }
  | { readonly kind: 'array', readonly items: readonly Json[] }
  | { readonly kind: 'object', readonly members: ReadonlyMap<string, Json>, readonly repeated: ReadonlySet<string> }

/** An object of JSON. */
export type JsonObject = Extract<Json, { kind: 'object' }>

// The parser of the nodes gives up when it would open the 128th level.
const levels = 127
const escapes: Record<string, string> = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** Reads a whole body, or throws the problem that the node answers. */
export function readJson (body: Buffer): Json {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    throw malformed('invalid unicode code point')
  }
  return new Reader(text).whole()
}

class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor (text: string) {
    this.#text = text
  }

  whole (): Json {
    const value = this.#value()
    this.#blank()
    if (this.#at < this.#text.length) this.#fail('trailing characters')
    return value
  }

  #value (): Json {
    this.#blank()
    const first = this.#text[this.#at]
    if (first === '{') return this.#nested(() => this.#object())
    if (first === '[') return this.#nested(() => this.#array())
    if (first === '"') return { kind: 'string', value: this.#string() }
    if (this.#take('null')) return { kind: 'null' }
    if (this.#take('true')) return { kind: 'bool', value: true }
    if (this.#take('false')) return { kind: 'bool', value: false }
    return {
      kind: 'number',
      text: this.#match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y, 'expected value')
    }
  }

  #nested (read: () => Json): Json {
    if (++this.#depth > levels) this.#fail('recursion limit exceeded')
    this.#at++
    const value = read()
    this.#depth--
    return value
  }

  #object (): Json {
    const members = new Map<string, Json>()
    const repeated = new Set<string>()
    if (this.#closes('}')) return { kind: 'object', members, repeated }
    do {
      this.#blank()
      const name = this.#string()
      this.#expect(':')
      if (members.has(name)) repeated.add(name)
      // A repeated member keeps its first place and takes its last value, as the map of the nodes does.
      members.set(name, this.#value())
    } while (this.#goesOn('}'))
    return { kind: 'object', members, repeated }
  }

  #array (): Json {
    const items: Json[] = []
    if (this.#closes(']')) return { kind: 'array', items }
    do items.push(this.#value())
    while (this.#goesOn(']'))
    return { kind: 'array', items }
  }

  #string (): string {
    if (this.#text[this.#at] !== '"') this.#fail('expected a string')
    this.#at++
    let read = ''
    for (;;) {
      // eslint-disable-next-line no-control-regex -- control characters are what JSON refuses.
      read += this.#match(/[^"\\\u0000-\u001f]*/y, '')
      if (this.#take('"')) return read
      if (!this.#take('\\')) this.#fail('control character found while parsing a string')
      read += this.#escape()
    }
  }

  #escape (): string {
    const simple = escapes[String(this.#text[this.#at])]
    if (simple !== undefined) {
      this.#at++
      return simple
    }
    const unit = this.#unit()
    if (unit >= 0xdc00 && unit <= 0xdfff) this.#fail('lone trailing surrogate in hex escape')
    if (unit < 0xd800 || unit > 0xdbff) return String.fromCharCode(unit)
    if (!this.#take('\\')) this.#fail('unexpected end of hex escape')
    const low = this.#unit()
    if (low < 0xdc00 || low > 0xdfff) this.#fail('lone leading surrogate in hex escape')
    return String.fromCharCode(unit, low)
  }

  #unit (): number {
    return parseInt(this.#match(/u[0-9a-fA-F]{4}/y, 'invalid escape').slice(1), 16)
  }

  #closes (end: string): boolean {
    this.#blank()
    return this.#take(end)
  }

  #goesOn (end: string): boolean {
    this.#blank()
    if (this.#take(',')) return true
    this.#expect(end)
    return false
  }

  #expect (text: string): void {
    this.#blank()
    if (!this.#take(text)) this.#fail(`expected \`${text}\``)
  }

  #take (text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  #match (pattern: RegExp, problem: string): string {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined) this.#fail(problem)
    this.#at += found.length
    return found
  }

  #blank (): void {
    this.#match(/[ \t\n\r]*/y, '')
  }

  #fail (problem: string): never {
    throw malformed(`${problem} at line 1 column ${this.#at}`)
  }
}

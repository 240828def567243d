import { malformedBody } from './problem.js'

/** JSON value with numbers as text and members in order, as nodes represent it. */
export type Json =
  | { readonly kind: 'null' }
  | { readonly kind: 'bool', readonly value: boolean }
  | { readonly kind: 'number', readonly text: string }
  | { readonly kind: 'string', readonly value: string }
  | { readonly kind: 'array', readonly items: readonly Json[] }
  | {
    readonly kind: 'object',
    readonly members: ReadonlyMap<string, Json>,
    readonly repeatedNames: ReadonlySet<string>
  }

/** JSON object. */
export type JsonObject = Extract<Json, { kind: 'object' }>

// The nodes' parser fails at the 128th level of nesting.
const maxDepth = 127
const escapes: Record<string, string> = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** Parses a whole body; throws the problem that a node responds with. */
export function parseJson (body: Buffer): Json {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    throw malformedBody('invalid unicode code point')
  }
  return new JsonParser(text).readDocument()
}

class JsonParser {
  readonly #text: string
  #offset = 0
  #depth = 0

  constructor (text: string) {
    this.#text = text
  }

  readDocument (): Json {
    const value = this.#readValue()
    this.#skipBlanks()
    if (this.#offset < this.#text.length) this.#fail('trailing characters')
    return value
  }

  #readValue (): Json {
    this.#skipBlanks()
    const first = this.#text[this.#offset]
    if (first === '{') return this.#readNested(() => this.#readObject())
    if (first === '[') return this.#readNested(() => this.#readArray())
    if (first === '"') return { kind: 'string', value: this.#readString() }
    if (this.#take('null')) return { kind: 'null' }
    if (this.#take('true')) return { kind: 'bool', value: true }
    if (this.#take('false')) return { kind: 'bool', value: false }
    return {
      kind: 'number',
      text: this.#match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y, 'expected value')
    }
  }

  #readNested (read: () => Json): Json {
    if (++this.#depth > maxDepth) this.#fail('recursion limit exceeded')
    this.#offset++
    const value = read()
    this.#depth--
    return value
  }

  #readObject (): Json {
    const members = new Map<string, Json>()
    const repeatedNames = new Set<string>()
    if (this.#takeEnd('}')) return { kind: 'object', members, repeatedNames }
    do {
      this.#skipBlanks()
      const name = this.#readString()
      this.#expect(':')
      if (members.has(name)) repeatedNames.add(name)
      // A repeated member has its first position and its last value, as in the map of the nodes.
      members.set(name, this.#readValue())
    } while (this.#hasMore('}'))
    return { kind: 'object', members, repeatedNames }
  }

  #readArray (): Json {
    const items: Json[] = []
    if (this.#takeEnd(']')) return { kind: 'array', items }
    do items.push(this.#readValue())
    while (this.#hasMore(']'))
    return { kind: 'array', items }
  }

  #readString (): string {
    if (this.#text[this.#offset] !== '"') this.#fail('expected a string')
    this.#offset++
    let read = ''
    for (;;) {
      // eslint-disable-next-line no-control-regex -- control characters are what JSON refuses.
      read += this.#match(/[^"\\\u0000-\u001f]*/y, '')
      if (this.#take('"')) return read
      if (!this.#take('\\')) this.#fail('control character found while parsing a string')
      read += this.#readEscape()
    }
  }

  #readEscape (): string {
    const simple = escapes[String(this.#text[this.#offset])]
    if (simple !== undefined) {
      this.#offset++
      return simple
    }
    const unit = this.#readCodeUnit()
    if (unit >= 0xdc00 && unit <= 0xdfff) this.#fail('lone trailing surrogate in hex escape')
    if (unit < 0xd800 || unit > 0xdbff) return String.fromCharCode(unit)
    if (!this.#take('\\')) this.#fail('unexpected end of hex escape')
    const low = this.#readCodeUnit()
    if (low < 0xdc00 || low > 0xdfff) this.#fail('lone leading surrogate in hex escape')
    return String.fromCharCode(unit, low)
  }

  #readCodeUnit (): number {
    return parseInt(this.#match(/u[0-9a-fA-F]{4}/y, 'invalid escape').slice(1), 16)
  }

  #takeEnd (end: string): boolean {
    this.#skipBlanks()
    return this.#take(end)
  }

  #hasMore (end: string): boolean {
    this.#skipBlanks()
    if (this.#take(',')) return true
    this.#expect(end)
    return false
  }

  #expect (text: string): void {
    this.#skipBlanks()
    if (!this.#take(text)) this.#fail(`expected \`${text}\``)
  }

  #take (text: string): boolean {
    if (!this.#text.startsWith(text, this.#offset)) return false
    this.#offset += text.length
    return true
  }

  #match (pattern: RegExp, problem: string): string {
    pattern.lastIndex = this.#offset
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined) this.#fail(problem)
    this.#offset += found.length
    return found
  }

  #skipBlanks (): void {
    this.#match(/[ \t\n\r]*/y, '')
  }

  #fail (problem: string): never {
    throw malformedBody(`${problem} at line 1 column ${this.#offset}`)
  }
}

/** Prints compactly, with the member order and the number text of the input. */
export function printJson (value: Json): string {
  switch (value.kind) {
    case 'null':
      return 'null'
    case 'bool':
      return String(value.value)
    case 'number':
      return value.text
    case 'string':
      return JSON.stringify(value.value)
    case 'array':
      return `[${value.items.map(printJson).join(',')}]`
    case 'object':
      return `{${[...value.members].map(([name, member]) => `${JSON.stringify(name)}:${printJson(member)}`).join(',')}}`
  }
}

/** Joins items, each printed already, to an array. */
export function joinItems (items: readonly Buffer[]): Buffer {
  const comma = Buffer.from(',')
  const separated = items.flatMap((item, index) => index === 0 ? [item] : [comma, item])
  return Buffer.concat([Buffer.from('['), ...separated, Buffer.from(']')])
}

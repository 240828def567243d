import { readTagAddress, shortAddress } from './address.js'

/** Type as Move writes it: a primitive or unknown bare name, a vector, or a struct with its type arguments. */
export type TypeTag =
  | { kind: 'named', name: string }
  | { kind: 'vector', of: TypeTag }
  | { kind: 'struct', address: string, module: string, name: string, typeArguments: TypeTag[] }

// Bounds recursion at the depth that nodes accept (docs/node-behaviour.md, "Type tags").
const maxLevels = 8

/**
 * Rejects longer texts (law 10: nothing grows without bound). Nodes limit a type to a few hundred parts with names of
 * at most 255 characters.
 */
export const maxTagLength = 65_536

// Blanks separate tokens and mean nothing else; a token is an address, a name, `::` or one of `<`, `>` and `,`.
const token = /[ \t\n\f\r]*(?:(0[xX][0-9a-fA-F]+|[A-Za-z_$][A-Za-z0-9_$]*)|(::|[<>,]))[ \t\n\f\r]*/y

/** Reads a type tag in any form; undefined if it cannot be parsed with certainty. */
export function readTypeTag (text: string): TypeTag | undefined {
  const tokens = text.length > maxTagLength ? undefined : tokensOf(text)
  if (tokens === undefined) return undefined
  const parser = new TagParser(tokens)
  const tag = parser.type(1)
  return parser.isAtEnd ? tag : undefined
}

/** Reads a type tag that must be a struct, as in the path of an event handle; undefined for any other. */
export function readStructTag (text: string): TypeTag | undefined {
  const tag = readTypeTag(text)
  return tag?.kind === 'struct' ? tag : undefined
}

/** Returns the canonical text for keys and upstream requests: short addresses, no blanks. */
export function printTypeTag (tag: TypeTag): string {
  switch (tag.kind) {
    case 'named':
      return tag.name
    case 'vector':
      return `vector<${printTypeTag(tag.of)}>`
    case 'struct': {
      const list = tag.typeArguments.map(printTypeTag).join(',')
      return `${shortAddress(tag.address)}::${tag.module}::${tag.name}${list === '' ? '' : `<${list}>`}`
    }
  }
}

/** Returns true for a Move identifier: a letter and more, or `_` or `$` and at least one more. */
export function isIdentifier (text: string): boolean {
  return /^(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+)$/.test(text)
}

function tokensOf (text: string): string[] | undefined {
  const tokens: string[] = []
  token.lastIndex = 0
  while (token.lastIndex < text.length) {
    const match = token.exec(text)
    const found = match?.[1] ?? match?.[2]
    if (found === undefined) return undefined
    tokens.push(found)
  }
  return tokens
}

class TagParser {
  readonly #tokens: string[]
  #at = 0

  constructor (tokens: string[]) {
    this.#tokens = tokens
  }

  get isAtEnd (): boolean {
    return this.#at === this.#tokens.length
  }

  type (level: number): TypeTag | undefined {
    const first = this.#tokens[this.#at++]
    if (first === undefined || level > maxLevels) return undefined
    if (/^0/.test(first)) return this.#struct(first, level)
    if (first === 'vector') return this.#vector(level)
    return isIdentifier(first) ? { kind: 'named', name: first } : undefined
  }

  #vector (level: number): TypeTag | undefined {
    const list = this.#typeArguments(level)
    const [of] = list ?? []
    return of !== undefined && list?.length === 1 ? { kind: 'vector', of } : undefined
  }

  #struct (first: string, level: number): TypeTag | undefined {
    const address = readTagAddress(first)
    const module = this.#name()
    const name = this.#name()
    if (address === undefined || module === undefined || name === undefined) return undefined
    const typeArguments = this.#tokens[this.#at] === '<' ? this.#typeArguments(level) : []
    return typeArguments && { kind: 'struct', address, module, name, typeArguments }
  }

  #name (): string | undefined {
    if (this.#tokens[this.#at++] !== '::') return undefined
    const name = this.#tokens[this.#at++]
    return name !== undefined && isIdentifier(name) ? name : undefined
  }

  // Rejects `<>` and allows a comma before `>`: docs/node-behaviour.md, "Type tags".
  #typeArguments (level: number): TypeTag[] | undefined {
    if (this.#tokens[this.#at++] !== '<') return undefined
    const list: TypeTag[] = []
    while (true) {
      const item = this.type(level + 1)
      if (item === undefined) return undefined
      list.push(item)
      const mark = this.#tokens[this.#at++]
      if (mark === '>') return list
      if (mark !== ',') return undefined
      if (this.#tokens[this.#at] === '>') {
        this.#at++
        return list
      }
    }
  }
}

import { type Address, readAddressDigits, shortAddress } from './address.js'

/** Names of the primitive types. */
export const primitives = [
  'bool',
  'u8',
  'u16',
  'u32',
  'u64',
  'u128',
  'u256',
  'i8',
  'i16',
  'i32',
  'i64',
  'i128',
  'i256',
  'address',
  'signer'
] as const

/** Name of a primitive type. */
export type Primitive = typeof primitives[number]

/** Type of a struct with its type arguments. */
export interface StructTag {
  readonly kind: 'struct'
  readonly address: Address
  readonly module: string
  readonly name: string
  readonly args: readonly TypeTag[]
}

/** Type as the read API names it. */
export type TypeTag =
  | { readonly kind: 'primitive', readonly name: Primitive }
  | { readonly kind: 'vector', readonly of: TypeTag }
  | StructTag

const maxDepth = 8
const tokenPattern = /[ \t\n\f\r]+|::|[<>,]|0[xX][0-9a-fA-F]*|[A-Za-z_$][A-Za-z0-9_$]*/y

/** True for a Move identifier; a lone `_` or `$` is not one. */
export function isIdentifier (text: string): boolean {
  return /^(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+)$/.test(text)
}

/** Reads a type; undefined if the text is not one. */
export function readTypeTag (text: string): TypeTag | undefined {
  const tokens = tokensOf(text)
  if (tokens === undefined) return undefined
  const read = readType(tokens, 0, 1)
  return read?.next === tokens.length ? read.tag : undefined
}

/** Reads a type that the sandbox itself wrote; throws if it is invalid. */
export function trustedTypeTag (text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) throw new RangeError(`no type: ${text}`)
  return tag
}

/** Reads a struct tag; undefined if the text is not one. */
export function readStructTag (text: string): StructTag | undefined {
  const tag = readTypeTag(text)
  return tag?.kind === 'struct' ? tag : undefined
}

/** Reads a struct tag that the sandbox itself wrote; throws if it is invalid. */
export function trustedStructTag (text: string): StructTag {
  const tag = readStructTag(text)
  if (tag === undefined) throw new RangeError(`no struct: ${text}`)
  return tag
}

/** Prints the canonical form that responses use. */
export function printTypeTag (tag: TypeTag): string {
  switch (tag.kind) {
    case 'primitive':
      return tag.name
    case 'vector':
      return `vector<${printTypeTag(tag.of)}>`
    case 'struct': {
      const args = tag.args.length === 0 ? '' : `<${tag.args.map(printTypeTag).join(', ')}>`
      return `${shortAddress(tag.address)}::${tag.module}::${tag.name}${args}`
    }
  }
}

interface ParsedTag<T> {
  readonly tag: T
  readonly next: number
}

function tokensOf (text: string): string[] | undefined {
  const tokens: string[] = []
  tokenPattern.lastIndex = 0
  while (tokenPattern.lastIndex < text.length) {
    const found = tokenPattern.exec(text)?.[0]
    if (found === undefined) return undefined
    // Adjacent words need a blank between them, so `0x1g` is invalid.
    const before = text[tokenPattern.lastIndex - found.length - 1] ?? ''
    if (/^\w/.test(found) && /[\w$]/.test(before)) return undefined
    if (!/^[ \t\n\f\r]/.test(found)) tokens.push(found)
  }
  return tokens
}

function readType (tokens: readonly string[], at: number, level: number): ParsedTag<TypeTag> | undefined {
  const first = tokens[at]
  if (first === undefined || level > maxDepth) return undefined
  if (/^0[xX]/.test(first)) return readStruct(tokens, at, level)
  if (first === 'vector') {
    const args = readArgs(tokens, at + 1, level)
    const of = args?.tag[0]
    return of === undefined || args?.tag.length !== 1 ? undefined : { tag: { kind: 'vector', of }, next: args.next }
  }
  const name = primitives.find(primitive => primitive === first)
  return name === undefined ? undefined : { tag: { kind: 'primitive', name }, next: at + 1 }
}

function readStruct (tokens: readonly string[], at: number, level: number): ParsedTag<StructTag> | undefined {
  const [digits, colons, module, moreColons, name] = tokens.slice(at, at + 5)
  const address = readAddressDigits(String(digits).slice(2))
  if (address === undefined || colons !== '::' || moreColons !== '::') return undefined
  if (module === undefined || name === undefined || !isIdentifier(module) || !isIdentifier(name)) return undefined
  const args = tokens[at + 5] === '<' ? readArgs(tokens, at + 5, level) : { tag: [], next: at + 5 }
  return args && { tag: { kind: 'struct', address, module, name, args: args.tag }, next: args.next }
}

function readArgs (tokens: readonly string[], at: number, level: number): ParsedTag<TypeTag[]> | undefined {
  if (tokens[at] !== '<') return undefined
  const args: TypeTag[] = []
  let next = at
  do {
    const read = readType(tokens, next + 1, level + 1)
    if (read === undefined) return undefined
    args.push(read.tag)
    next = read.next
    if (tokens[next] === ',' && tokens[next + 1] === '>') next++
  } while (tokens[next] === ',')
  return tokens[next] === '>' ? { tag: args, next: next + 1 } : undefined
}

import { addressBytes, type Address, readAddressDigits, shortAddress } from './address.js'
import { sequenceBytes, textBytes, type BcsReader, InvalidBcsError } from './bcs.js'

// Variants in BCS, in the order in which Move added its types; variant 11 is the function type.
const primitives = {
  bool: 0,
  u8: 1,
  u64: 2,
  u128: 3,
  address: 4,
  signer: 5,
  u16: 8,
  u32: 9,
  u256: 10,
  i8: 12,
  i16: 13,
  i32: 14,
  i64: 15,
  i128: 16,
  i256: 17
} as const

/** Name of a primitive type. */
export type Primitive = keyof typeof primitives

const primitiveNames = Object.keys(primitives) as Primitive[]

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
  const name = primitiveNames.find(primitive => primitive === first)
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

const vectorVariant = 6
const structVariant = 7

/** Encodes a type in BCS. */
export function typeTagBytes (tag: TypeTag): Buffer {
  switch (tag.kind) {
    case 'primitive':
      return Buffer.from([primitives[tag.name]])
    case 'vector':
      return Buffer.concat([Buffer.from([vectorVariant]), typeTagBytes(tag.of)])
    case 'struct':
      return Buffer.concat([Buffer.from([structVariant]), structTagBytes(tag)])
  }
}

/** Encodes a struct tag in BCS, without the variant byte of a type. */
export function structTagBytes ({ address, module, name, args }: StructTag): Buffer {
  return Buffer.concat([
    addressBytes(address),
    textBytes(module),
    textBytes(name),
    sequenceBytes(args.map(typeTagBytes))
  ])
}

/** Reads a type in BCS; throws if it is invalid or nested too deeply. */
export function readTypeTagBytes (reader: BcsReader, level = 1): TypeTag {
  if (level > maxDepth) throw new InvalidBcsError('recursion limit exceeded')
  const variant = reader.readByte()
  if (variant === vectorVariant) return { kind: 'vector', of: readTypeTagBytes(reader, level + 1) }
  if (variant === structVariant) return readStructTagBytes(reader, level)
  const name = primitiveNames.find(primitive => primitives[primitive] === variant)
  if (name === undefined) throw new InvalidBcsError(`unknown type ${variant}`)
  return { kind: 'primitive', name }
}

/** Reads a struct tag in BCS, without the variant byte of a type. */
export function readStructTagBytes (reader: BcsReader, level = 1): StructTag {
  const address = reader.readBytes(32).toString('hex')
  const [module, name] = [readIdentifierBytes(reader), readIdentifierBytes(reader)]
  return { kind: 'struct', address, module, name, args: reader.readItems(() => readTypeTagBytes(reader, level + 1)) }
}

/** Reads a Move identifier in BCS. */
export function readIdentifierBytes (reader: BcsReader): string {
  const name = reader.readSizedBytes().toString()
  if (!isIdentifier(name)) throw new InvalidBcsError('invalid identifier')
  return name
}

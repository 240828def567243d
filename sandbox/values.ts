import { addressBytes, readAddress, shortAddress, type Address } from './address.js'
import { type Json } from './json.js'
import { invalidInput } from './problem.js'
import { type Primitive, printTypeTag, type StructTag, trustedTypeTag, type TypeTag } from './type-tag.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes, InvalidBcsError, u64Bytes } from './bcs.js'
import { type DigestRandom } from './digests.js'

/** Value in its two forms, JSON and BCS. */
export interface EncodedValue {
  readonly json: string
  readonly bytes: Buffer
}

/** Encodes an integer, signed or not; JSON prints more than 32 bits as a string. */
function integerValue (value: bigint, bits: number): EncodedValue {
  return {
    json: bits <= 32 ? String(value) : `"${value}"`,
    bytes: bits === 64 ? u64Bytes(value) : integerBytes(value, bits / 8)
  }
}

/** Encodes a u64. */
export const u64Value = (value: bigint): EncodedValue => integerValue(value, 64)

/** Encodes a u128. */
export const u128Value = (value: bigint): EncodedValue => integerValue(value, 128)

/** Encodes a u8. */
export const u8Value = (value: number): EncodedValue => integerValue(BigInt(value), 8)

/** Encodes a boolean. */
export function boolValue (value: boolean): EncodedValue {
  return { json: String(value), bytes: Buffer.from([value ? 1 : 0]) }
}

/** Encodes an address, which JSON prints in its short form. */
export function addressValue (value: Address): EncodedValue {
  return { json: `"${shortAddress(value)}"`, bytes: addressBytes(value) }
}

/** Encodes a string. */
export function textValue (value: string): EncodedValue {
  return { json: JSON.stringify(value), bytes: textBytes(value) }
}

/** Encodes a vector<u8>, which JSON prints as hex. */
export function bytesValue (value: Buffer): EncodedValue {
  return { json: `"0x${value.toString('hex')}"`, bytes: sizedBytes(value) }
}

/** Encodes a vector of any type except u8. */
function vectorValue (items: readonly EncodedValue[]): EncodedValue {
  return { json: `[${items.map(({ json }) => json).join(',')}]`, bytes: sequenceBytes(items.map(({ bytes }) => bytes)) }
}

/** Encodes a struct from members in declared order; JSON sorts them by name, BCS does not. */
export function structValue (members: ReadonlyArray<readonly [name: string, value: EncodedValue]>): EncodedValue {
  return {
    // Prints on demand, since the hashes of the chain need the bytes alone.
    get json () {
      const printed = members.toSorted(([one], [other]) => one < other ? -1 : 1)
      return `{${printed.map(([name, { json }]) => `"${name}":${json}`).join(',')}}`
    },
    bytes: Buffer.concat(members.map(([, { bytes }]) => bytes))
  }
}

/** Encodes an option; without content it is none. */
export function optionValue (content?: EncodedValue): EncodedValue {
  return structValue([['vec', vectorValue(content === undefined ? [] : [content])]])
}

const u64 = trustedTypeTag('u64')
const string = trustedTypeTag('0x1::string::String')
const cell = trustedTypeTag('0x42::game::Cell')

type Field = readonly [name: string, type: TypeTag]

// Fields in declared order; a struct without type parameters ignores the argument.
const declarations: Readonly<Record<string, { readonly params: number, readonly fields: (arg: TypeTag) => Field[] }>> =
  {
    '0x42::game::Cell': { params: 0, fields: () => [['x', u64], ['y', u64], ['owner', trustedTypeTag('address')]] },
    '0x42::game::Line': { params: 1, fields: arg => [['from', cell], ['to', cell], ['tag', arg]] },
    '0x42::shop::Item': {
      params: 0,
      fields: () => [['name', string], ['price', trustedTypeTag('u128')], ['sold', trustedTypeTag('bool')]]
    },
    '0x1::option::Option': { params: 1, fields: arg => [['vec', { kind: 'vector', of: arg }]] }
  }

function fieldsOf (tag: StructTag): Field[] | undefined {
  const declared = declarations[qualifiedNameOf(tag)]
  return declared?.params === tag.args.length ? declared.fields(tag.args[0] ?? tag) : undefined
}

// Structs that JSON prints in a form of their own.
function specialFormatOf (tag: StructTag): 'string' | 'object' | undefined {
  if (qualifiedNameOf(tag) === '0x1::string::String' && tag.args.length === 0) return 'string'
  return qualifiedNameOf(tag) === '0x1::object::Object' && tag.args.length === 1 ? 'object' : undefined
}

function qualifiedNameOf (tag: StructTag): string {
  return printTypeTag({ ...tag, args: [] })
}

/** Source of the parts of a value: its bytes in BCS, or random draws. */
export interface ValueParts {
  readBytes(count: number): Buffer
  readBool(): boolean
  readInteger(size: number): bigint
  readText(): string
  /** Bytes or items prefixed by their count; draws have no more than `most`. */
  readSizedBytes(most: number): Buffer
  readItems<Item>(read: () => Item, most: number): Item[]
}

/** Reads a value of a type; throws InvalidBcsError if the sandbox does not know the type. */
export function readValue (type: TypeTag, parts: ValueParts, most = 4): EncodedValue {
  switch (type.kind) {
    case 'primitive':
      return readPrimitive(type.name, parts)
    case 'vector':
      return isByte(type.of)
        ? bytesValue(parts.readSizedBytes(most))
        : vectorValue(parts.readItems(() => readValue(type.of, parts), most))
    case 'struct':
      return readStruct(type, parts)
  }
}

function readPrimitive (name: Primitive, parts: ValueParts): EncodedValue {
  if (name === 'signer') throw new InvalidBcsError('signer is no type of a value')
  if (name === 'address') return addressValue(parts.readBytes(32).toString('hex'))
  if (name === 'bool') return boolValue(parts.readBool())
  const bits = Number(name.slice(1))
  const raw = parts.readInteger(bits / 8)
  return integerValue(name.startsWith('i') ? BigInt.asIntN(bits, raw) : raw, bits)
}

function readStruct (tag: StructTag, parts: ValueParts): EncodedValue {
  const special = specialFormatOf(tag)
  if (special === 'string') return textValue(parts.readText())
  if (special === 'object') return structValue([['inner', addressValue(parts.readBytes(32).toString('hex'))]])
  const fields = fieldsOf(tag)
  if (fields === undefined) throw new InvalidBcsError(`type not found: ${printTypeTag(tag)}`)
  // The vector of an option has one item or none.
  const most = qualifiedNameOf(tag) === '0x1::option::Option' ? 1 : undefined
  return structValue(fields.map(([name, type]) => [name, readValue(type, parts, most)]))
}

function isByte (type: TypeTag): boolean {
  return type.kind === 'primitive' && type.name === 'u8'
}

// Includes text beyond ASCII, so that tests detect a proxy that changes bytes.
const sampleWords = ['alder', 'Ñandú', 'basalt', '漂礫', 'esker', 'kvart "kis"', 'till', 'varve']

/** Draws a value of a type; throws InvalidBcsError if the sandbox does not know the type. */
export function generateValue (type: TypeTag, random: DigestRandom): EncodedValue {
  return readValue(type, {
    readBytes: count => random.bytes(count),
    readBool: () => random.below(2) === 1,
    readInteger: size => BigInt(`0x${random.bytes(size).toString('hex')}`),
    readSizedBytes: most => random.bytes(random.below(most + 1)),
    readText: () => `${sampleWords[random.below(sampleWords.length)]} ${random.below(10_000)}`,
    // Draws one item more than needed, so that an empty vector of an unknown type is unknown too.
    readItems (read, most) {
      const length = random.below(most + 1)
      return Array.from({ length: length + 1 }, read).slice(0, length)
    }
  })
}

/** Converts a table key to BCS, so that all JSON forms of a key identify the same item. */
export function keyBytes (type: TypeTag, key: Json): Buffer {
  try {
    return valueBytes(type, key)
  } catch (error) {
    throw invalidInput(`convert table key failed: ${(error as Error).message}`)
  }
}

/** Converts a JSON value to BCS; throws if it does not match its type. */
export function valueBytes (type: TypeTag, key: Json): Buffer {
  switch (type.kind) {
    case 'primitive':
      return primitiveBytes(type.name, key)
    case 'vector':
      return vectorBytes(type.of, key)
    case 'struct':
      return structBytes(type, key)
  }
}

function primitiveBytes (name: Primitive, key: Json): Buffer {
  if (name === 'signer') throw new TypeError('signer is no type of a value')
  if (name === 'address') return requireAddressBytes(key)
  if (name === 'bool') {
    if (key.kind !== 'bool') throw new TypeError('expected a boolean')
    return Buffer.from([key.value ? 1 : 0])
  }
  const bits = Number(name.slice(1))
  return integerBytes(requireInteger(name.startsWith('i'), bits, key), bits / 8)
}

function requireInteger (signed: boolean, bits: number, key: Json): bigint {
  const power = 2n ** BigInt(signed ? bits - 1 : bits)
  const asNumber = bits <= 32
  if (key.kind !== (asNumber ? 'number' : 'string')) throw new TypeError(`expected a ${asNumber ? 'number' : 'string'}`)
  const text = key.kind === 'number' ? key.text : key.value
  // The nodes' parser reads `-0` as a floating-point number, like `1.0` and `1e0`.
  if (asNumber && text === '-0') throw new TypeError('invalid type: floating point')
  const value = readInteger(text, signed ? -power : 0n, power - 1n)
  if (typeof value === 'string') throw new TypeError(value)
  return value
}

function requireAddressBytes (key: Json): Buffer {
  const address = key.kind === 'string' ? readAddress(key.value) : undefined
  if (address === undefined) throw new TypeError('invalid account address')
  return addressBytes(address)
}

function vectorBytes (of: TypeTag, key: Json): Buffer {
  if (isByte(of)) {
    const digits = key.kind === 'string' ? key.value.replace(/^0x/, '') : undefined
    if (digits === undefined || !/^(?:[0-9a-fA-F]{2})*$/.test(digits)) throw new TypeError('expected hex bytes')
    return sizedBytes(Buffer.from(digits, 'hex'))
  }
  if (key.kind !== 'array') throw new TypeError(`expected vector<${printTypeTag(of)}>`)
  return sequenceBytes(key.items.map(item => valueBytes(of, item)))
}

function structBytes (tag: StructTag, key: Json): Buffer {
  const special = specialFormatOf(tag)
  if (special === 'object') return requireAddressBytes(key)
  if (special === 'string') {
    if (key.kind !== 'string') throw new TypeError('expected a string')
    return textBytes(key.value)
  }
  const fields = fieldsOf(tag)
  if (fields === undefined) throw new TypeError(`type not found: ${printTypeTag(tag)}`)
  if (key.kind !== 'object') throw new TypeError('Expecting a JSON Map for struct.')
  return Buffer.concat(fields.map(([name, type]) => {
    const member = key.members.get(name)
    if (member === undefined) throw new TypeError(`field ${name} not found.`)
    return valueBytes(type, member)
  }))
}

/** The largest u64. */
export const maxU64 = 2n ** 64n - 1n

/**
 * Reads an integer as nodes do: leading zeros and a leading plus are valid, blanks and points are not. Returns the
 * error message of the nodes' own parser if the text is invalid.
 */
export function readInteger (text: string, min: bigint, max: bigint): bigint | string {
  if (text === '') return 'cannot parse integer from empty string'
  const pattern = min < 0n ? /^[+-]?[0-9]+$/ : /^\+?[0-9]+$/
  if (!pattern.test(text)) return 'invalid digit found in string'
  const value = BigInt(text.replace(/^\+/, ''))
  if (value > max) return 'number too large to fit in target type'
  return value < min ? 'number too small to fit in target type' : value
}

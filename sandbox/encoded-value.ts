import { type Address, addressBytes, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type EncodedValue } from './generated-value.js'
import { printString } from './json-printer.js'

/** A number that JSON prints as text. */
export function u64Value (value: bigint): EncodedValue {
  return { json: `"${value}"`, bytes: integerBytes(value, 8) }
}

/** A wider number, printed as text as well. */
export function u128Value (value: bigint): EncodedValue {
  return { json: `"${value}"`, bytes: integerBytes(value, 16) }
}

/** A number that JSON prints as one. */
export function u8Value (value: number): EncodedValue {
  return { json: String(value), bytes: Buffer.from([value]) }
}

/** A truth value. */
export function boolValue (value: boolean): EncodedValue {
  return { json: String(value), bytes: Buffer.from([value ? 1 : 0]) }
}

/** An address. */
export function addressValue (value: Address): EncodedValue {
  return { json: `"${shortAddress(value)}"`, bytes: addressBytes(value) }
}

/** A text. */
export function textValue (value: string): EncodedValue {
  return { json: printString(value), bytes: textBytes(value) }
}

/** Bytes. */
export function bytesValue (value: Buffer): EncodedValue {
  return { json: `"0x${value.toString('hex')}"`, bytes: sizedBytes(value) }
}

/** A vector. */
export function vectorValue (items: readonly EncodedValue[]): EncodedValue {
  return { json: `[${items.map(({ json }) => json).join(',')}]`, bytes: sequenceBytes(items.map(({ bytes }) => bytes)) }
}

/** A struct: its members are given as declared, printed by name and stored as declared. */
export function structValue (members: ReadonlyArray<readonly [name: string, value: EncodedValue]>): EncodedValue {
  const printed = members.toSorted(([one], [other]) => one < other ? -1 : 1).map(([name, { json }]) =>
    `"${name}":${json}`
  )
  return { json: `{${printed.join(',')}}`, bytes: Buffer.concat(members.map(([, { bytes }]) => bytes)) }
}

/** An option: none or one. */
export function optionValue (content?: EncodedValue): EncodedValue {
  return structValue([['vec', vectorValue(content === undefined ? [] : [content])]])
}

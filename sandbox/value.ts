import { type Address, addressBytes, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type DrawnValue } from './drawn-value.js'
import { printString } from './json-printer.js'

/** A number that JSON prints as text. */
export function u64Value (value: bigint): DrawnValue {
  return { json: `"${value}"`, bytes: integerBytes(value, 8) }
}

/** A wider number, printed as text as well. */
export function u128Value (value: bigint): DrawnValue {
  return { json: `"${value}"`, bytes: integerBytes(value, 16) }
}

/** A number that JSON prints as one. */
export function u8Value (value: number): DrawnValue {
  return { json: String(value), bytes: Buffer.from([value]) }
}

/** A truth value. */
export function boolValue (value: boolean): DrawnValue {
  return { json: String(value), bytes: Buffer.from([value ? 1 : 0]) }
}

/** An address. */
export function addressValue (value: Address): DrawnValue {
  return { json: `"${shortAddress(value)}"`, bytes: addressBytes(value) }
}

/** A text. */
export function textValue (value: string): DrawnValue {
  return { json: printString(value), bytes: textBytes(value) }
}

/** Bytes. */
export function bytesValue (value: Buffer): DrawnValue {
  return { json: `"0x${value.toString('hex')}"`, bytes: sizedBytes(value) }
}

/** A vector. */
export function vectorValue (items: readonly DrawnValue[]): DrawnValue {
  return { json: `[${items.map(({ json }) => json).join(',')}]`, bytes: sequenceBytes(items.map(({ bytes }) => bytes)) }
}

/** A struct: its members are given as declared, printed by name and stored as declared. */
export function structValue (members: ReadonlyArray<readonly [name: string, value: DrawnValue]>): DrawnValue {
  const printed = members.toSorted(([one], [other]) => one < other ? -1 : 1).map(([name, { json }]) =>
    `"${name}":${json}`
  )
  return { json: `{${printed.join(',')}}`, bytes: Buffer.concat(members.map(([, { bytes }]) => bytes)) }
}

/** An option: none or one. */
export function optionValue (held?: DrawnValue): DrawnValue {
  return structValue([['vec', vectorValue(held === undefined ? [] : [held])]])
}

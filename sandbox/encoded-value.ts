import { type Address, addressBytes, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes } from './bcs.js'
import { printString } from './json-printer.js'

/** Value in its two forms, JSON and BCS. */
export interface EncodedValue {
  readonly json: string
  readonly bytes: Buffer
}

/** Encodes a u64, which JSON prints as a string. */
export function u64Value (value: bigint): EncodedValue {
  return { json: `"${value}"`, bytes: u64Bytes(value) }
}

/** Encodes a u128, which JSON prints as a string. */
export function u128Value (value: bigint): EncodedValue {
  return { json: `"${value}"`, bytes: integerBytes(value, 16) }
}

/** Encodes a u8, which JSON prints as a number. */
export function u8Value (value: number): EncodedValue {
  return { json: String(value), bytes: Buffer.from([value]) }
}

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
  return { json: printString(value), bytes: textBytes(value) }
}

/** Encodes a vector<u8>, which JSON prints as hex. */
export function bytesValue (value: Buffer): EncodedValue {
  return { json: `"0x${value.toString('hex')}"`, bytes: sizedBytes(value) }
}

/** Encodes a vector of any type except u8. */
export function vectorValue (items: readonly EncodedValue[]): EncodedValue {
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

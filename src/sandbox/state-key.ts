import { type Address, addressBytes } from './address.js'
import { readLength, sizedBytes, textBytes } from './bcs.js'
import { isIdentifier, type StructTag } from './type-tag.js'
import { structTagBytes } from './type-tag-bytes.js'

const accessPath = Buffer.from([0])
const code = Buffer.from([0])
const resource = Buffer.from([1])

/** The state key of a module: what pages are ordered by, and what a cursor is in hex. */
export function moduleKey (address: Address, name: string): Buffer {
  return pathKey(address, Buffer.concat([code, addressBytes(address), textBytes(name)]))
}

/** The state key of a resource. */
export function resourceKey (address: Address, tag: StructTag): Buffer {
  return pathKey(address, Buffer.concat([resource, structTagBytes(tag)]))
}

/** Reads a cursor; undefined when it is not the hex of the state key of a module. */
export function readCursor (hex: string): Buffer | undefined {
  if (!/^(?:[0-9a-fA-F]{2})+$/.test(hex)) return undefined
  const bytes = Buffer.from(hex, 'hex')
  const path = readLength(bytes, 33)
  if (bytes[0] !== 0 || path === undefined || bytes.length !== path.next + path.value) return undefined
  const name = readLength(bytes, path.next + 33)
  if (bytes[path.next] !== 0 || name === undefined || bytes.length !== name.next + name.value) return undefined
  return isIdentifier(bytes.toString('latin1', name.next)) ? bytes : undefined
}

function pathKey (address: Address, path: Buffer): Buffer {
  return Buffer.concat([accessPath, addressBytes(address), sizedBytes(path)])
}

import { type Address, addressBytes } from './address.js'
import { sizedBytes, textBytes } from './bcs.js'
import { BcsReader, InvalidBcsError } from './bcs-reader.js'
import { type StructTag } from './type-tag.js'
import { readIdentifierBytes, readStructTagBytes, structTagBytes } from './type-tag-bytes.js'

const accessPath = Buffer.from([0])
const code = Buffer.from([0])
const resource = Buffer.from([1])

/** Returns the state key of a module; pages are sorted by state key, and a cursor is a state key in hex. */
export function moduleKey (address: Address, name: string): Buffer {
  return pathKey(address, Buffer.concat([code, addressBytes(address), textBytes(name)]))
}

/** Returns the state key of a resource. */
export function resourceKey (address: Address, tag: StructTag): Buffer {
  return pathKey(address, Buffer.concat([resource, structTagBytes(tag)]))
}

/** Reads a cursor; undefined when it is not the hex of the state key of a module or a resource. */
export function readCursor (hex: string): Buffer | undefined {
  if (!/^(?:[0-9a-fA-F]{2})+$/.test(hex)) return undefined
  const bytes = Buffer.from(hex, 'hex')
  try {
    verifyKey(bytes)
    return bytes
  } catch {
    return undefined
  }
}

function verifyKey (bytes: Buffer): void {
  const key = new BcsReader(bytes)
  if (key.readByte() !== accessPath[0]) throw new InvalidBcsError('neither a module nor a resource')
  key.readBytes(32)
  const path = new BcsReader(key.readSizedBytes())
  key.requireEnd()
  const kind = path.readByte()
  if (kind === resource[0]) readStructTagBytes(path)
  else if (kind !== code[0]) throw new InvalidBcsError('neither a module nor a resource')
  else {
    path.readBytes(32)
    readIdentifierBytes(path)
  }
  path.requireEnd()
}

function pathKey (address: Address, path: Buffer): Buffer {
  return Buffer.concat([accessPath, addressBytes(address), sizedBytes(path)])
}

import { type Address, addressBytes } from './address.js'
import { sizedBytes, textBytes, BcsReader, InvalidBcsError } from './bcs.js'
import { type StructTag, readIdentifierBytes, readStructTagBytes, structTagBytes } from './type-tag.js'
import { hasherOf, printHash } from './digests.js'

/** Key of one value of the state: the bytes that its hash is of; those of a path are its BCS form too. */
export type StateKey = Buffer

/** Parts that a state key names. */
export type StateSubject =
  | { readonly kind: 'module', readonly address: Address, readonly name: string }
  | { readonly kind: 'resource' | 'group', readonly address: Address, readonly tag: StructTag }
  | { readonly kind: 'item', readonly handle: Address, readonly key: Buffer }

const [accessPath, tableItem, rawKey] = [0, 1, 2]
const [code, resource, group] = [0, 1, 2]
const hashStateKey = hasherOf('StateKey')

/** Returns the state key of a module; pages are sorted by state key, and a cursor is a state key in hex. */
export function moduleKey (address: Address, name: string): StateKey {
  return pathKey(address, code, Buffer.concat([addressBytes(address), textBytes(name)]))
}

/** Returns the state key of a resource that is in no group. */
export function resourceKey (address: Address, tag: StructTag): StateKey {
  return pathKey(address, resource, structTagBytes(tag))
}

/** Returns the state key of a resource group, which all its members share. */
export function groupKey (address: Address, tag: StructTag): StateKey {
  return pathKey(address, group, structTagBytes(tag))
}

/** Returns the state key of a table item. */
export function itemKey (handle: Address, key: Buffer): StateKey {
  return Buffer.concat([Buffer.from([tableItem]), addressBytes(handle), key])
}

/** Returns the hash of a state key, as changes print it. */
export function stateKeyHash (key: StateKey): string {
  return printHash(hashStateKey(key))
}

/** Encodes a state key in BCS: the key of a table item has its length there, unlike in the hash. */
export function stateKeyBytes (key: StateKey): Buffer {
  return key[0] === accessPath ? key : Buffer.concat([key.subarray(0, 33), sizedBytes(key.subarray(33))])
}

/** Reads a state key in BCS; throws if it is invalid. */
export function readStateKeyBytes (bytes: Buffer): StateKey {
  const key = new BcsReader(bytes)
  const kind = key.readByte()
  if (kind > rawKey) throw new InvalidBcsError('no kind of state key')
  key.readBytes(kind === rawKey ? 0 : 32)
  const head = bytes.subarray(0, key.offset)
  const content = key.readSizedBytes()
  key.requireEnd()
  if (kind !== accessPath) return Buffer.concat([head, content])
  readStateKey(bytes)
  return bytes
}

/** Reads the parts of a state key; throws if it is invalid. */
export function readStateKey (bytes: StateKey): StateSubject {
  const key = new BcsReader(bytes)
  const kind = key.readByte()
  const address = key.readBytes(32).toString('hex')
  if (kind === tableItem) return { kind: 'item', handle: address, key: bytes.subarray(33) }
  if (kind !== accessPath) throw new InvalidBcsError('neither a path nor a table item')
  const path = new BcsReader(key.readSizedBytes())
  key.requireEnd()
  const subject = readPath(address, path)
  path.requireEnd()
  return subject
}

/** Reads a cursor; undefined when it is not the hex of the state key of a module, a resource or a group. */
export function readCursor (hex: string): StateKey | undefined {
  if (!/^(?:[0-9a-fA-F]{2})+$/.test(hex)) return undefined
  const bytes = Buffer.from(hex, 'hex')
  try {
    return readStateKey(bytes).kind === 'item' ? undefined : bytes
  } catch {
    return undefined
  }
}

function readPath (address: Address, path: BcsReader): StateSubject {
  const kind = path.readByte()
  if (kind === resource || kind === group) {
    return { kind: kind === group ? 'group' : 'resource', address, tag: readStructTagBytes(path) }
  }
  if (kind !== code) throw new InvalidBcsError('neither a module nor a resource')
  path.readBytes(32)
  return { kind: 'module', address, name: readIdentifierBytes(path) }
}

function pathKey (address: Address, kind: number, name: Buffer): StateKey {
  return Buffer.concat([
    Buffer.from([accessPath]),
    addressBytes(address),
    sizedBytes(Buffer.concat([Buffer.from([kind]), name]))
  ])
}

import { hash } from 'node:crypto'
import { shortAddressOf } from './address.js'
import { printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/**
 * First eight bytes of the hash of a state key, or of a set of state keys. Two keys with one digest make an entry look
 * changed, never unchanged.
 */
export type StateDigest = bigint

/** Digest of all published code, because layouts of types render JSON (docs/node-behaviour.md, "Write sets"). */
export const publishedCode: StateDigest = 1n

const [codePath, resourcePath, groupPath] = [0, 1, 2]
const [pathKind, itemKind, rawKind] = [0, 1, 2]
const accessPath = Buffer.from([pathKind])
const tableItem = Buffer.from([itemKind])
const stateKeyPrefix = hash('sha3-256', 'APTOS::StateKey', 'buffer')

const vectorVariant = 6
const structVariant = 7
// Variants in the order in which Move added its types.
const variants: Readonly<Record<string, number>> = {
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
}

const knownVariants: ReadonlySet<number> = new Set(Object.values(variants))

/** Group of the resources of an object. */
export const objectGroup = structTagOf('0x1::object::ObjectGroup')
/** Resource of the features that the chain has switched on. */
export const featuresTag = structTagOf('0x1::features::Features')
/** Address of the framework. */
export const frameworkAddress = '1'.padStart(64, '0')

/** Reads a type tag written in varve's source; throws for an invalid one, which is a bug. */
export function structTagOf (text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) throw new TypeError(`not a type tag: ${text}`)
  return tag
}

/** Returns the digest of a state key from the hex digits of its hash, without `0x`. */
export function digestOfHash (digits: string): StateDigest {
  return BigInt(`0x${digits.slice(0, 16)}`)
}

/** Returns the hash of a state key in hex, without the `0x` that changes print. */
export function stateKeyHash (key: Buffer): string {
  return hash('sha3-256', Buffer.concat([stateKeyPrefix, key]), 'hex')
}

/** Returns the state key of a module; an address is 64 hex digits. */
export function moduleKey (address: string, name: string): Buffer {
  return pathKey(address, codePath, Buffer.concat([bytesOfAddressDigits(address), sizedBytes(Buffer.from(name))]))
}

/** Returns the state key of a resource outside groups; undefined for a type without a form in BCS. */
export function resourceKey (address: string, tag: TypeTag): Buffer | undefined {
  const bytes = structTagBytes(tag)
  return bytes && pathKey(address, resourcePath, bytes)
}

/** Returns the state key of a resource group. */
export function groupKey (address: string, tag: TypeTag): Buffer | undefined {
  const bytes = structTagBytes(tag)
  return bytes && pathKey(address, groupPath, bytes)
}

/** Returns the state key of a table item. */
export function itemKey (handle: string, key: Buffer): Buffer {
  return Buffer.concat([tableItem, bytesOfAddressDigits(handle), key])
}

const keyMember = '{"key":"0x'

/**
 * Returns the bytes of the state key in a canonical `{"key":"0x..."}` as nodes hash them: without the length that BCS
 * has in the key of a table item and in a raw key. Throws for bytes that are no state key.
 */
export function stateKeyInBody (canonical: string): Buffer {
  const digits = canonical.startsWith(keyMember) ? canonical.slice(keyMember.length, -'"}'.length) : ''
  const bytes = Buffer.from(digits, 'hex')
  const [kind = Infinity] = bytes
  const headLength = kind === rawKind ? 1 : 33
  const rest = bytes.subarray(headLength)
  const content = rest.subarray(rest.findIndex(byte => byte < 0x80) + 1)
  const isWhole = bytes.length * 2 === digits.length && sizedBytes(content).equals(rest)
  if (kind > rawKind || !isWhole || (kind === pathKind && !isPath(content))) {
    throw new TypeError('not a state key in BCS')
  }
  return kind === pathKind ? bytes : Buffer.concat([bytes.subarray(0, headLength), content])
}

// Checks a path, because nodes respond with 500 to a path that they cannot read: that would count as a failure of every
// upstream.
function isPath (path: Buffer): boolean {
  const [kind = Infinity] = path
  if (kind > groupPath) return false
  return (kind === codePath ? nameEnd(path, 33) : structEnd(path, 1, 0)) === path.length
}

const maxTypeDepth = 32

/** Returns the end of a struct tag in BCS; NaN if the bytes are no struct tag. */
function structEnd (bytes: Buffer, start: number, depth: number): number {
  const typesAt = nameEnd(bytes, nameEnd(bytes, start + 32))
  const count = bytes[typesAt]
  // Nodes accept no more type arguments than one byte can count.
  if (count === undefined || count >= 0x80 || depth > maxTypeDepth) return NaN
  let at = typesAt + 1
  for (let nth = 0; nth < count; nth++) at = tagEnd(bytes, at, depth + 1)
  return at
}

function tagEnd (bytes: Buffer, at: number, depth: number): number {
  const variant = bytes[at]
  if (variant === undefined || depth > maxTypeDepth) return NaN
  if (variant === vectorVariant) return tagEnd(bytes, at + 1, depth + 1)
  if (variant === structVariant) return structEnd(bytes, at + 1, depth + 1)
  // Leaves types that varve does not know to the node.
  return knownVariants.has(variant) ? at + 1 : bytes.length
}

/** Returns the end of an identifier in BCS; NaN if the bytes are no identifier. */
function nameEnd (bytes: Buffer, at: number): number {
  const length = bytes[at]
  const end = at + 1 + (length ?? NaN)
  return /^[A-Za-z_]\w*$/.test(bytes.toString('latin1', at + 1, end)) && end <= bytes.length ? end : NaN
}

/** Returns true for a state key that is neither of an account nor of a table. */
export function isRawKey (key: Buffer): boolean {
  return key[0] === rawKind
}

/** Returns the digest of a state key. */
export function digestOf (key: Buffer): StateDigest {
  return digestOfHash(stateKeyHash(key))
}

/** Sets of state keys that one digest stands for. */
export type WildcardKind = 'groups' | 'modules' | 'resources' | 'items'

/** Returns the digest of all keys of a kind at an address or in a table; an address is 64 hex digits. */
export function wildcardDigest (set: WildcardKind, address: string): StateDigest {
  return digestOfHash(hash('sha256', `${set} ${address}`, 'hex'))
}

/** Returns the address of the store in which an account has a fungible asset. */
export function primaryStoreOf (owner: string, metadata: string): string {
  return hash(
    'sha3-256',
    Buffer.concat([bytesOfAddressDigits(owner), bytesOfAddressDigits(metadata), Buffer.from([0xfc])]),
    'hex'
  )
}

const nativeCoin = '0x1::aptos_coin::AptosCoin'
const nativeAsset = 'a'.padStart(64, '0')

/** Returns the address of the fungible asset that a coin is paired with. */
export function pairedAssetOf (coin: TypeTag): string {
  const name = printTypeTag(coin)
  if (name === nativeCoin) return nativeAsset
  const seed = Buffer.from(name.replaceAll(',', ', '))
  return hash('sha3-256', Buffer.concat([bytesOfAddressDigits(nativeAsset), seed, Buffer.from([0xfe])]), 'hex')
}

/** Returns the bytes of an address of 64 hex digits. */
export function bytesOfAddressDigits (digits: string): Buffer {
  return Buffer.from(digits, 'hex')
}

/** Returns an address of any form as 64 hex digits. */
export function addressDigits (text: string): string {
  return shortAddressOf(text).slice(2).padStart(64, '0')
}

/** Returns the length of bytes as BCS prints it, then the bytes. */
export function sizedBytes (bytes: Buffer): Buffer {
  return Buffer.concat([lengthBytes(bytes.length), bytes])
}

/** Returns a length in the form of BCS. */
export function lengthBytes (length: number): Buffer {
  const bytes: number[] = []
  let rest = length
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return Buffer.from([...bytes, rest])
}

/** Returns a struct tag in BCS; undefined for a type that has no form there. */
export function structTagBytes (tag: TypeTag): Buffer | undefined {
  if (tag.kind !== 'struct') return undefined
  const args = tag.typeArguments.map(typeTagBytes)
  if (!args.every(arg => arg !== undefined)) return undefined
  return Buffer.concat([
    bytesOfAddressDigits(tag.address),
    sizedBytes(Buffer.from(tag.module)),
    sizedBytes(Buffer.from(tag.name)),
    lengthBytes(args.length),
    ...args
  ])
}

function typeTagBytes (tag: TypeTag): Buffer | undefined {
  switch (tag.kind) {
    case 'named': {
      const variant = variants[tag.name]
      return variant === undefined ? undefined : Buffer.from([variant])
    }
    case 'vector': {
      const of = typeTagBytes(tag.of)
      return of && Buffer.concat([Buffer.from([vectorVariant]), of])
    }
    case 'struct': {
      const struct = structTagBytes(tag)
      return struct && Buffer.concat([Buffer.from([structVariant]), struct])
    }
  }
}

function pathKey (address: string, kind: number, name: Buffer): Buffer {
  return Buffer.concat([
    accessPath,
    bytesOfAddressDigits(address),
    sizedBytes(Buffer.concat([Buffer.from([kind]), name]))
  ])
}

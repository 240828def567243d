import { readAddress } from './address.js'
import {
  addressDigits,
  digestOf,
  digestOfHash,
  wildcardDigest,
  featuresTag,
  frameworkAddress,
  groupKey,
  isRawKey,
  itemKey,
  lengthBytes,
  moduleKey,
  objectGroup,
  pairedAssetOf,
  primaryStoreOf,
  publishedCode,
  resourceKey,
  sizedBytes,
  stateKeyHash,
  stateKeyInBody,
  type WildcardKind,
  type StateDigest,
  structTagOf
} from './state-key.js'
import { printTypeTag, readTypeTag, type TypeTag } from './type-tag.js'

/** State key, or set of state keys, that a response can depend on. */
export interface Dependency {
  readonly digest: StateDigest
  /** Name for people, as `explain` prints it. */
  readonly name: string
}

/** Parts of a read that decide which state keys its response depends on. */
export interface DependentRead {
  readonly path: string
  readonly accept: 'json' | 'bcs'
  readonly body: { readonly canonical: string } | undefined
}

/**
 * Lists, from the request alone, every state key that any response to a read can depend on (law 12: unknown means
 * changed).
 */
export type ListDependencies = (read: DependentRead) => readonly Dependency[]

const accountTag = structTagOf('0x1::account::Account')
const features = ofResourceKey(frameworkAddress, featuresTag)
const code: Dependency = { digest: publishedCode, name: 'all published code' }
// A longer body depends on its whole table, because encoding its key would cost more than a fetch saves.
const maxBodyLength = 4096

/** Dependencies of a table item: the item, or the whole table if the bytes of its key need a struct's layout. */
export const ofTableItem: ListDependencies = read => {
  const body = readBody(read)
  const [keyTag, valueTag] = [readTypeTag(String(body?.['key_type'])), readTypeTag(String(body?.['value_type']))]
  const key = keyTag && body && tableKeyBytes(keyTag, body['key'])
  const hasFixedLayout = body !== undefined && valueTag !== undefined && !needsLayout(valueTag)
  return [ofItem(addressIn(read), key), ...hasFixedLayout ? [] : layoutsOf(read)]
}

/** Dependencies of a table item that is requested by the bytes of its key. */
export const ofRawTableItem: ListDependencies = read => {
  const [, digits] = /^0x((?:[0-9a-f]{2})*)$/.exec(String(readBody(read)?.['key'])) ?? []
  return [ofItem(addressIn(read), digits === undefined ? undefined : Buffer.from(digits, 'hex')), ...layoutsOf(read)]
}

/**
 * Dependencies of the value of a state key: that key alone. Undefined for a raw key, because nodes list no change of a
 * raw key in JSON (law 12: unknown means changed).
 */
export function ofRawStateValue ({ body }: DependentRead): readonly Dependency[] | undefined {
  const key = stateKeyInBody(String(body?.canonical))
  if (isRawKey(key)) return undefined
  const hash = stateKeyHash(key)
  return [{ digest: digestOfHash(hash), name: `state key of hash 0x${hash}` }]
}

/**
 * Dependencies of an account: its resource, and the chain's features, one of which makes nodes respond for absent
 * accounts.
 */
export const ofAccount: ListDependencies = read => [
  ofResourceKey(addressIn(read), accountTag),
  features
]

/** Dependencies of a resource: its own key or any group at the address, and the module that names its group. */
export const ofResource: ListDependencies = read => {
  const address = addressIn(read)
  const tag = readTypeTag(segmentOf(read, 5))
  if (tag?.kind !== 'struct') return [ofSet('resources', address), ...layoutsOf(read)]
  return [
    ofResourceKey(address, tag),
    ofSet('groups', address),
    ofModuleKey(tag.address, tag.module),
    ...migratedCoin(address, tag),
    ...layoutsOf(read)
  ]
}

/** Dependencies of a balance: the coin's store and the store of the asset that the coin is paired with. */
export const ofBalance: ListDependencies = read => {
  const address = addressIn(read)
  const asset = segmentOf(read, 5)
  const coin = asset.includes('::') ? readTypeTag(asset) : undefined
  if (coin === undefined) return [storeOf(address, addressDigits(asset))]
  // A type that is nested too deep for a tag depends on every resource.
  const coinStore = readTypeTag(`0x1::coin::CoinStore<${asset}>`)
  return [
    coinStore === undefined ? ofSet('resources', address) : ofResourceKey(address, coinStore),
    storeOf(address, pairedAssetOf(coin))
  ]
}

/** Dependencies of a module: its own key alone, because its ABI comes from its bytecode. */
export const ofModule: ListDependencies = read => [ofModuleKey(addressIn(read), segmentOf(read, 5))]

/** Dependencies of a page of modules: all modules of the account, which decide on its pages. */
export const ofModules: ListDependencies = read => [ofSet('modules', addressIn(read))]

/** Dependencies of a page of resources: all resources and groups of the account. */
export const ofResources: ListDependencies = read => [ofSet('resources', addressIn(read)), ...layoutsOf(read)]

/**
 * Further dependencies of a resource of `0x1::coin`: once the coin is migrated, newer releases respond from its paired
 * fungible asset (docs/node-behaviour.md, "Rendering").
 */
function migratedCoin (address: string, tag: Extract<TypeTag, { kind: 'struct' }>): readonly Dependency[] {
  const [coin] = tag.typeArguments
  if (coin === undefined || tag.address !== frameworkAddress || tag.module !== 'coin') return []
  const asset = pairedAssetOf(coin)
  return [storeOf(address, asset), ofGroupKey(asset)]
}

function storeOf (owner: string, asset: string): Dependency {
  return ofGroupKey(primaryStoreOf(owner, asset))
}

function layoutsOf ({ accept }: DependentRead): readonly Dependency[] {
  return accept === 'json' ? [code, features] : []
}

/** Depends on one resource, or on all resources at the address, if the type has no BCS form. */
function ofResourceKey (address: string, tag: TypeTag): Dependency {
  return ofPath(resourceKey(address, tag), `resource ${printTypeTag(tag)} at 0x${address}`, ofSet('resources', address))
}

function ofGroupKey (address: string): Dependency {
  return ofPath(groupKey(address, objectGroup), `object at 0x${address}`, ofSet('groups', address))
}

function ofPath (key: Buffer | undefined, name: string, all: Dependency): Dependency {
  return key === undefined ? all : { digest: digestOf(key), name }
}

function ofModuleKey (address: string, name: string): Dependency {
  return { digest: digestOf(moduleKey(address, name)), name: `module 0x${address}::${name}` }
}

function ofItem (handle: string, key: Buffer | undefined): Dependency {
  return key === undefined
    ? ofSet('items', handle)
    : { digest: digestOf(itemKey(handle, key)), name: `item 0x${key.toString('hex')} of table 0x${handle}` }
}

function ofSet (set: WildcardKind, address: string): Dependency {
  return { digest: wildcardDigest(set, address), name: `all ${set} of 0x${address}` }
}

/** Returns the address or table handle of a canonical path as 64 hex digits. */
function addressIn (read: DependentRead): string {
  return addressDigits(segmentOf(read, 3))
}

function segmentOf ({ path }: DependentRead, at: number): string {
  return decodeURIComponent(String(path.split('/')[at]))
}

function readBody ({ body }: DependentRead): Readonly<Record<string, unknown>> | undefined {
  return body === undefined || body.canonical.length > maxBodyLength
    ? undefined
    : JSON.parse(body.canonical) as Readonly<Record<string, unknown>>
}

/**
 * Encodes a table key in BCS from its type and canonical JSON; undefined if that needs the layout of a struct, or if
 * the value does not fit its type.
 */
export function tableKeyBytes (type: TypeTag, value: unknown): Buffer | undefined {
  switch (type.kind) {
    case 'named':
      return primitiveBytes(type.name, value)
    case 'vector':
      return vectorBytes(type.of, value)
    case 'struct':
      if (isFramework(type, 'string', 'String')) {
        return typeof value === 'string' ? sizedBytes(Buffer.from(value)) : undefined
      }
      return isFramework(type, 'object', 'Object') ? addressOf(value) : undefined
  }
}

/** Returns true for types whose JSON needs the layout of a struct, which published code can change. */
export function needsLayout (type: TypeTag): boolean {
  switch (type.kind) {
    case 'named':
      return false
    case 'vector':
      return needsLayout(type.of)
    case 'struct':
      return !isFramework(type, 'string', 'String') && !isFramework(type, 'object', 'Object')
  }
}

function primitiveBytes (name: string, value: unknown): Buffer | undefined {
  if (name === 'bool') return typeof value === 'boolean' ? Buffer.from([Number(value)]) : undefined
  if (name === 'address') return addressOf(value)
  const [, sign, width] = /^([ui])(8|16|32|64|128|256)$/.exec(name) ?? []
  return width === undefined ? undefined : integerBytes(value, Number(width), sign === 'i')
}

// Nodes take narrow integers as JSON numbers and wide ones as texts.
function integerBytes (value: unknown, bits: number, isSigned: boolean): Buffer | undefined {
  const isText = typeof value === 'string' && /^-?[0-9]+$/.test(value)
  if (!isText && !(typeof value === 'number' && Number.isSafeInteger(value))) return undefined
  const integer = BigInt(value)
  const wrapped = BigInt.asUintN(bits, integer)
  if ((isSigned ? BigInt.asIntN(bits, wrapped) : wrapped) !== integer) return undefined
  return Buffer.from(wrapped.toString(16).padStart(bits / 4, '0'), 'hex').reverse()
}

function vectorBytes (of: TypeTag, value: unknown): Buffer | undefined {
  if (of.kind === 'named' && of.name === 'u8') {
    const [, digits] = typeof value === 'string' ? /^0x((?:[0-9a-f]{2})*)$/.exec(value) ?? [] : []
    return digits === undefined ? undefined : sizedBytes(Buffer.from(digits, 'hex'))
  }
  if (!Array.isArray(value)) return undefined
  const items = value.map(item => tableKeyBytes(of, item))
  return items.every(item => item !== undefined) ? Buffer.concat([lengthBytes(items.length), ...items]) : undefined
}

function addressOf (value: unknown): Buffer | undefined {
  const digits = typeof value === 'string' ? readAddress(value) : undefined
  return digits === undefined ? undefined : Buffer.from(digits, 'hex')
}

function isFramework (type: TypeTag, module: string, name: string): boolean {
  return type.kind === 'struct' && BigInt(`0x${type.address}`) === 1n && type.module === module && type.name === name
}

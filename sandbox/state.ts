import { assetMetadata, chainAsset, nativeCoinType, primaryStore, storeOf } from './resources.js'
import { type Ledger, retainedBlocksBelowWindow } from './ledger.js'
import { printTypeTag, readStructTag, type StructTag, trustedStructTag } from './type-tag.js'
import { type Address, addressOf } from './address.js'
import { shortLivedResources } from './short-lived.js'
import { groupKey, itemKey, moduleKey, readStateKey, resourceKey, type StateKey } from './state-key.js'
import { transactionOutcomeOf } from './transactions.js'
import { type Module, type StateValue, type TableItemValue, type TaggedValue, type Write } from './write.js'

// Group of each type that is in one.
const groupByMember = new Map(
  [assetMetadata, storeOf(chainAsset), ...shortLivedResources].flatMap(({ key, members }) => {
    const subject = readStateKey(key)
    return subject.kind === 'group' ? members.map(({ tag }) => [printTypeTag(tag), subject.tag] as const) : []
  })
)

/** Resources under one key of the state: a resource, or the members of a group. */
interface ResourcesAtKey {
  readonly key: StateKey
  readonly resources: readonly TaggedValue[]
}

/** Returns a resource of an account at a version; undefined if the account does not have it. */
export function resourceAt (
  ledger: Ledger,
  address: Address,
  tag: StructTag,
  version: bigint
): TaggedValue | undefined {
  const type = printTypeTag(tag)
  const group = groupByMember.get(type)
  const key = group === undefined ? resourceKey(address, tag) : groupKey(address, group)
  return resourcesOf(stateAt(ledger, key, version)).find(found => printTypeTag(found.tag) === type)
}

/** Returns every resource of an account at a version, in the order of their state keys. */
export function resourcesAt (ledger: Ledger, address: Address, version: bigint): ResourcesAtKey[] {
  return keysAt(ledger, address, version).flatMap(key => {
    const resources = resourcesOf(stateAt(ledger, key, version))
    return resources.length === 0 ? [] : { key, resources }
  })
}

/** Returns one module of an account at a version; undefined if it does not exist. */
export function moduleAt (ledger: Ledger, address: Address, name: string, version: bigint): Module | undefined {
  const value = stateAt(ledger, moduleKey(address, name), version)
  return value?.kind === 'module' ? value.module : undefined
}

/** Returns the modules of an account at a version, in the order of their state keys. */
export function modulesAt (ledger: Ledger, address: Address, version: bigint): Module[] {
  return keysAt(ledger, address, version).flatMap(key => {
    const value = stateAt(ledger, key, version)
    return value?.kind === 'module' ? value.module : []
  })
}

/** Returns an item of a table at a version; undefined if it does not exist. */
export function itemAt (ledger: Ledger, handle: Address, key: Buffer, version: bigint): TableItemValue | undefined {
  const value = stateAt(ledger, itemKey(handle, key), version)
  return value?.kind === 'item' ? value.item : undefined
}

/** Returns a framework resource as JSON; throws if it does not exist. */
export function frameworkResourceAt (ledger: Ledger, type: string, version: bigint): Record<string, unknown> {
  const found = resourceAt(ledger, addressOf('1'), trustedStructTag(type), version)
  if (found === undefined) throw new RangeError(`no resource ${type}`)
  return JSON.parse(found.value.json) as Record<string, unknown>
}

/** Returns the value of a key at a version: what the last transaction that lists the key wrote. */
export function stateAt (ledger: Ledger, key: StateKey, version: bigint): StateValue | undefined {
  const place = Number(version - ledger.startVersion)
  indexState(ledger, version)
  if (place < ledger.state.oldest) throw new RangeError(`the state at ${version} was dropped`)
  const last = ledger.state.lastPlace(key, place)
  return last === undefined ? undefined : writeAt(ledger, key, last)?.value()
}

/** Indexes the transactions up to a version; drops what no node can read any more. */
export function indexState (ledger: Ledger, upTo: bigint): void {
  const { state } = ledger
  const place = Number(upTo - ledger.startVersion)
  if (place < state.next) return
  let block = ledger.blockOf(ledger.startVersion + BigInt(state.next))
  for (; state.next <= place; state.next++) {
    const version = ledger.startVersion + BigInt(state.next)
    if (version > block.lastVersion) block = ledger.block(block.height + 1n)
    for (const { key } of transactionOutcomeOf({ ledger, block, version }).writes) state.add(key, state.next)
  }
  prune(ledger, Math.max(0, Number(block.height) - ledger.windowBlocks - retainedBlocksBelowWindow))
}

function keysAt (ledger: Ledger, address: Address, version: bigint): StateKey[] {
  indexState(ledger, version)
  return ledger.state.keysOf(address)
}

function resourcesOf (value: StateValue | undefined): readonly TaggedValue[] {
  switch (value?.kind) {
    case 'resource':
      return [value.resource]
    case 'group':
      return value.members
    default:
      return []
  }
}

function prune (ledger: Ledger, height: number): void {
  const { state } = ledger
  const oldest = Number(ledger.block(height).firstVersion - ledger.startVersion)
  for (; state.oldest < oldest; state.oldest++) {
    for (const { key } of writesAt(ledger, state.oldest)) {
      state.prune(key, oldest, last => writeAt(ledger, key, last)?.value() === undefined)
    }
  }
}

function writeAt (ledger: Ledger, key: StateKey, place: number): Write | undefined {
  return writesAt(ledger, place).find(write => write.key.equals(key))
}

function writesAt (ledger: Ledger, place: number): readonly Write[] {
  const version = ledger.startVersion + BigInt(place)
  return transactionOutcomeOf({ ledger, block: ledger.blockOf(version), version }).writes
}

/** Returns an account's balance of an asset: the sum of its coin store and its primary store, 0 if it has neither. */
export function balanceAt (ledger: Ledger, address: Address, asset: StructTag | Address, version: bigint): bigint {
  const coins = typeof asset === 'string'
    ? 0n
    : storedAmount(ledger, address, `0x1::coin::CoinStore<${printTypeTag(asset)}>`, version)
  const metadata = typeof asset === 'string' ? asset : printTypeTag(asset) === nativeCoinType ? chainAsset : undefined
  return coins +
    (metadata === undefined
      ? 0n
      : storedAmount(ledger, primaryStore(address, metadata), '0x1::fungible_asset::FungibleStore', version))
}

function storedAmount (ledger: Ledger, address: Address, type: string, version: bigint): bigint {
  const tag = readStructTag(type)
  const resource = tag && resourceAt(ledger, address, tag, version)
  // Both resources contain the amount as a u64: first in a coin store, after the 32-byte metadata in a fungible store.
  return resource === undefined ? 0n : resource.value.bytes.readBigUInt64LE(type.includes('FungibleStore') ? 32 : 0)
}

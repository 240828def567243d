import { longAddress, shortAddress } from '../address.js'
import { integerBytes, lengthBytes, sizedBytes, variant } from '../bcs.js'
import { moduleRecord, type Rendering, renderingOf } from '../module-abi.js'
import { type WriteSetChange } from '../records.js'
import { readStateKey, stateKeyBytes, stateKeyHash } from '../state-key.js'
import { itemValue } from '../generated-table-items.js'
import { printTypeTag, structTagBytes } from '../type-tag.js'
import { type StateValue, type TaggedValue, type Write } from '../write.js'

/** A write with its value, computed once. */
export interface SettledWrite {
  readonly write: Write
  /** The state key in BCS. */
  readonly key: Buffer
  readonly value: StateValue | undefined
}

/** Prints a write set as a release renders it. */
export function changesOf (writes: readonly SettledWrite[], release: string): WriteSetChange[] {
  return writes.flatMap(write => changesOfWrite(write, renderingOf(release)))
}

/** Computes the values of a write set once, in the order of their keys. */
export function settledWrites (writes: readonly Write[]): SettledWrite[] {
  return writes.map(write => ({ write, key: stateKeyBytes(write.key), value: write.value() })).sort((a, b) =>
    a.key.compare(b.key)
  )
}

/** Encodes the write set of a transaction in BCS: a map ordered by key. */
export function writeSetBytes (writes: readonly SettledWrite[]): Buffer {
  return Buffer.concat([
    Buffer.from([0]),
    lengthBytes(writes.length),
    ...writes.flatMap(({ key, value }) => [key, ...writeOpParts(value)])
  ])
}

/** Encodes the members of a resource group: a map ordered by type. */
export function groupBytes (members: readonly TaggedValue[]): Buffer {
  const entries = members.map(({ tag, value }) => ({ key: structTagBytes(tag), value: value.bytes })).toSorted((a, b) =>
    a.key.compare(b.key)
  )
  return Buffer.concat([lengthBytes(entries.length), ...entries.flatMap(({ key, value }) => [key, sizedBytes(value)])])
}

const meta = Buffer.concat([Buffer.from([0]), integerBytes(100_000n, 8), integerBytes(1_660_247_629_760_032n, 8)])

const [modification, deletion] = [Buffer.from([4]), Buffer.from([5])]

// Each write is a modification with a deposit, or a deletion, as on chains that charge for storage.
function writeOpParts (value: StateValue | undefined): Buffer[] {
  if (value === undefined) return [deletion, meta]
  const bytes = valueBytes(value)
  return [modification, lengthBytes(bytes.length), bytes, meta]
}

/** Encodes a value of the state as nodes store it. */
export function stateValueBytes (value: StateValue): Buffer {
  return variant(1, sizedBytes(valueBytes(value)), meta)
}

function valueBytes (value: StateValue): Buffer {
  switch (value.kind) {
    case 'resource':
      return value.resource.value.bytes
    case 'group':
      return groupBytes(value.members)
    case 'module':
      return value.module.bytecode
    case 'item':
      return value.item.bytes
  }
}

function changesOfWrite ({ write, value }: SettledWrite, rendering: Rendering): WriteSetChange[] {
  const subject = readStateKey(write.key)
  const hash = stateKeyHash(write.key)
  if (subject.kind === 'item') {
    const of = { state_key_hash: hash, handle: longAddress(subject.handle), key: `0x${subject.key.toString('hex')}` }
    return [
      value?.kind === 'item' ? itemChange(of, write, value) : {
        ...of,
        data: write.decoded ? { key: write.decoded.key, key_type: printTypeTag(write.decoded.keyType) } : null,
        type: 'delete_table_item'
      }
    ]
  }
  const of = { address: shortAddress(subject.address), state_key_hash: hash }
  switch (value?.kind) {
    case undefined:
      return [
        subject.kind === 'module'
          ? { ...of, module: `${of.address}::${subject.name}`, type: 'delete_module' }
          : { ...of, resource: printTypeTag(subject.tag), type: 'delete_resource' }
      ]
    case 'resource':
      return [resourceChange(of, value.resource)]
    case 'group':
      return value.members.map(member => resourceChange(of, member))
    case 'module':
      return [{ ...of, data: moduleRecord(value.module, rendering), type: 'write_module' }]
    case 'item':
      throw new RangeError('a table item under the key of an account')
  }
}

interface AccountSubject {
  readonly address: string
  readonly state_key_hash: string
}

function resourceChange (of: AccountSubject, { tag, value }: TaggedValue): WriteSetChange {
  const data = { type: printTypeTag(tag), data: JSON.parse(value.json) as Record<string, unknown> }
  return { ...of, data, type: 'write_resource' }
}

function itemChange (
  of: { state_key_hash: string, handle: string, key: string },
  { decoded }: Write,
  { item }: Extract<StateValue, { kind: 'item' }>
): WriteSetChange {
  const data = decoded && {
    key: decoded.key,
    key_type: printTypeTag(decoded.keyType),
    value: JSON.parse(itemValue(item.seed, item.type).json) as unknown,
    value_type: printTypeTag(item.type)
  }
  return { ...of, value: `0x${item.bytes.toString('hex')}`, data: data ?? null, type: 'write_table_item' }
}

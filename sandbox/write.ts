import { type Address } from './address.js'
import { type EncodedValue } from './values.js'
import { type StateKey } from './state-key.js'
import { type StructTag, type TypeTag } from './type-tag.js'

/** A module as it is at one version. */
export interface Module {
  readonly address: Address
  readonly name: string
  readonly key: StateKey
  readonly bytecode: Buffer
}

/** A table item as one transaction wrote it. */
export interface TableItemValue {
  /** Type whose bytes are in the write set; a read as another type draws another value. */
  readonly type: TypeTag
  readonly bytes: Buffer
  readonly seed: string
}

/** Resource, or member of a resource group. */
export interface TaggedValue {
  readonly tag: StructTag
  readonly value: EncodedValue
}

/** Value of a state key. */
export type StateValue =
  | { readonly kind: 'resource', readonly resource: TaggedValue }
  /** The members that exist; a group without members is deleted. */
  | { readonly kind: 'group', readonly members: readonly TaggedValue[] }
  | { readonly kind: 'module', readonly module: Module }
  | { readonly kind: 'item', readonly item: TableItemValue }

/** Write of one key by one transaction; the only way in which the state changes. */
export interface Write {
  readonly key: StateKey
  /** Computes the value, since few are ever read; undefined means that the key is deleted. */
  readonly value: () => StateValue | undefined
  /** Types and key of a table item, which nodes that know them print. */
  readonly decoded?: { readonly key: unknown, readonly keyType: TypeTag }
}

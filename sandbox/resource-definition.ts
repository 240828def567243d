import { type Address } from './address.js'
import { type Ledger } from './ledger.js'
import { eventCountAt, type AccountEventStream } from './account-event-stream.js'
import { addressValue, type EncodedValue, structValue, u64Value } from './encoded-value.js'
import { groupKey, resourceKey, type StateKey } from './state-key.js'
import { trustedStructTag, type StructTag } from './type-tag.js'
import { type TaggedValue, type Write } from './write.js'

/** Computes the content that a transaction gives a resource; undefined where it does not exist. */
export type ContentAt = (ledger: Ledger, version: bigint) => EncodedValue | undefined

/** Resource, or resource group, of an account: one key of the state. */
export interface ResourceDefinition {
  readonly key: StateKey
  readonly members: ReadonlyArray<{ readonly tag: StructTag, readonly contentAt: ContentAt }>
  readonly isGroup: boolean
}

/** Defines a resource that is in no group. */
export function defineResource (address: Address, type: string, contentAt: ContentAt): ResourceDefinition {
  const tag = trustedStructTag(type)
  return { key: resourceKey(address, tag), members: [{ tag, contentAt }], isGroup: false }
}

/** Defines a group of resources, by the types of its members. */
export function defineGroup (
  address: Address,
  group: string,
  members: Readonly<Record<string, ContentAt>>
): ResourceDefinition {
  return {
    key: groupKey(address, trustedStructTag(group)),
    members: Object.entries(members).map(([type, contentAt]) => ({ tag: trustedStructTag(type), contentAt })),
    isGroup: true
  }
}

/** Writes a resource or a group as it is after a transaction. */
export function resourceWrite ({ key, members, isGroup }: ResourceDefinition, ledger: Ledger, version: bigint): Write {
  return {
    key,
    value () {
      const existing = members.flatMap(({ tag, contentAt }): TaggedValue[] => {
        const value = contentAt(ledger, version)
        return value === undefined ? [] : [{ tag, value }]
      })
      const [resource] = existing
      if (resource === undefined) return undefined
      return isGroup ? { kind: 'group', members: existing } : { kind: 'resource', resource }
    }
  }
}

/** Encodes an event handle; its counter is the number of events at the version. */
export function handleValue (ledger: Ledger, stream: AccountEventStream, version: bigint): EncodedValue {
  return structValue([['counter', u64Value(BigInt(eventCountAt(ledger, stream, version)))], [
    'guid',
    guidValue(stream.account, stream.creationNumber)
  ]])
}

function guidValue (account: Address, creationNumber: bigint): EncodedValue {
  return structValue([[
    'id',
    structValue([['creation_num', u64Value(creationNumber)], ['addr', addressValue(account)]])
  ]])
}

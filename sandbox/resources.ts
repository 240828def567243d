import { hash } from 'node:crypto'
import { type Address, addressBytes, addressOf } from './address.js'
import {
  depositStream,
  depositAccount,
  depositSum,
  emptyStream,
  eventCountAt,
  newBlockStream,
  newEpochStream,
  type AccountEventStream
} from './events.js'
import { type Ledger, epochBlocks } from './ledger.js'
import { drawnSequenceAt, knownSenders, nextSequenceAt } from './schedule.js'
import { initialAssets } from './submissions.js'
import {
  type EncodedValue,
  addressValue,
  boolValue,
  structValue,
  textValue,
  u64Value,
  u8Value,
  bytesValue,
  optionValue,
  u128Value
} from './values.js'
import { digestBytes } from './digests.js'
import { groupKey, resourceKey, type StateKey } from './state-key.js'
import { trustedStructTag, type StructTag } from './type-tag.js'
import { type TaggedValue, type Write } from './write.js'

/** Computes the content that a transaction gives a resource; undefined if it does not exist. */
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
function handleValue (ledger: Ledger, stream: AccountEventStream, version: bigint): EncodedValue {
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

/** Account resources, by address. */
export const accountResources: ReadonlyMap<Address, ResourceDefinition> = new Map(
  ['1', '42', 'cafe', 'feed', 'a11ce', 'b0b'].map(addressOf).map(address => [
    address,
    defineResource(address, '0x1::account::Account', (ledger, version) =>
      accountValue(ledger, address, version, {
        authenticationKey: digestBytes(ledger.seed, 'authentication', address),
        sequence: nextSequenceAt(ledger, address, version),
        creationNumber: address === addressOf('1') ? 5n : address === depositAccount ? 4n : 2n
      }))
  ])
)

/** Returns the account resource of any address; the first transaction that it sends creates a missing one. */
export function accountOf (address: Address): ResourceDefinition {
  return accountResources.get(address) ??
    defineResource(address, '0x1::account::Account', (ledger, version) => defaultAccount(ledger, address, version))
}

/** Account resource that nodes make up for an address without one: it authenticates as itself. */
export function defaultAccount (ledger: Ledger, address: Address, version: bigint): EncodedValue {
  return accountValue(ledger, address, version, {
    authenticationKey: Buffer.from(address, 'hex'),
    sequence: ledger.submissions.sendsOf(address, version),
    creationNumber: 2n
  })
}

interface AccountState {
  readonly authenticationKey: Buffer
  readonly sequence: bigint
  readonly creationNumber: bigint
}

function accountValue (
  ledger: Ledger,
  address: Address,
  version: bigint,
  { authenticationKey, sequence, creationNumber }: AccountState
): EncodedValue {
  const offer: EncodedValue = structValue([['for', optionValue()]])
  return structValue([
    ['authentication_key', bytesValue(authenticationKey)],
    ['sequence_number', u64Value(sequence)],
    ['guid_creation_num', u64Value(creationNumber)],
    ['coin_register_events', handleValue(ledger, emptyStream(address, 0n), version)],
    ['key_rotation_events', handleValue(ledger, emptyStream(address, 1n), version)],
    ['rotation_capability_offer', offer],
    ['signer_capability_offer', offer]
  ])
}

const frameworkAddress = addressOf('1')
const intervalStream = emptyStream(frameworkAddress, 4n)

/** Resources of the framework account that the first transaction of each block writes. */
export const blockResources: readonly ResourceDefinition[] = [
  framework('0x1::block::BlockResource', (ledger, version) =>
    structValue([
      ['height', u64Value(ledger.blockOf(version).height)],
      ['epoch_interval', u64Value(BigInt(epochBlocks) * ledger.blockUsec)],
      ['new_block_events', handleValue(ledger, newBlockStream, version)],
      ['update_epoch_interval_events', handleValue(ledger, intervalStream, version)]
    ])),
  framework(
    '0x1::timestamp::CurrentTimeMicroseconds',
    (ledger, version) => structValue([['microseconds', u64Value(ledger.blockOf(version).timestampUsec)]])
  )
]

/** Resources of the framework account that the first block of each epoch writes. */
export const epochResources: readonly ResourceDefinition[] = [
  framework('0x1::reconfiguration::Configuration', (ledger, version) => {
    const { epoch, height } = ledger.blockOf(version)
    const began = ledger.block(Math.floor(Number(height) / epochBlocks) * epochBlocks)
    return structValue([
      ['epoch', u64Value(epoch)],
      ['last_reconfiguration_time', u64Value(began.timestampUsec)],
      ['events', handleValue(ledger, newEpochStream, version)]
    ])
  }),
  framework(
    '0x1::version::Version',
    (ledger, version) => structValue([['major', u64Value(ledger.blockOf(version).epoch)]])
  ),
  framework('0x1::state_storage::StateStorageUsage', (ledger, version) => {
    const { epoch } = ledger.blockOf(version)
    return structValue([['epoch', u64Value(epoch)], [
      'usage',
      structValue([['items', u64Value(epoch * 1_009n)], ['bytes', u64Value(epoch * 65_537n)]])
    ]])
  }),
  // Sets one more bit in each epoch, so that followers see features change.
  framework('0x1::features::Features', (ledger, version) => {
    const { epoch } = ledger.blockOf(version)
    return structValue([['features', bytesValue(Buffer.alloc(Number(epoch % 16n) + 1, 0xff))]])
  }),
  framework('0x1::coin::CoinInfo<0x1::aptos_coin::AptosCoin>', (ledger, version) =>
    structValue([
      ['name', textValue('Aptos Coin')],
      ['symbol', textValue('APT')],
      ['decimals', u8Value(8)],
      [
        'supply',
        optionValue(structValue([['aggregator', optionValue()], ['integer', optionValue(coinSupply(ledger, version))]]))
      ]
    ]))
]

/** Resources of the framework account that only genesis writes. */
export const constantResources: readonly ResourceDefinition[] = [
  framework('0x1::chain_id::ChainId', ({ chainId }) => structValue([['id', u8Value(chainId)]])),
  framework(
    '0x1::transaction_fee::TransactionFee',
    () => structValue([['burn_percentage', u8Value(100)], ['enabled', boolValue(true)]])
  ),
  framework(
    '0x1::gas_schedule::GasScheduleV2',
    ledger =>
      structValue([['feature_version', u64Value(13n)], [
        'entries',
        bytesValue(digestBytes(ledger.seed, 'gas schedule'))
      ]])
  )
]

function framework (type: string, contentAt: ContentAt): ResourceDefinition {
  return defineResource(frameworkAddress, type, contentAt)
}

function coinSupply (ledger: Ledger, version: bigint) {
  return structValue([['value', u128Value(10n ** 17n + ledger.blockOf(version).height)], [
    'limit',
    u128Value(2n ** 128n - 1n)
  ]])
}

/** The type of the chain's own coin. */
export const nativeCoinType = '0x1::aptos_coin::AptosCoin'

/** The metadata of the chain's own coin as a fungible asset. */
export const chainAsset = addressOf('a')

/** The group of the resources of an object. */
export const objectGroup = '0x1::object::ObjectGroup'

// Exceeds 2^53, so that tests detect a client that parses the amount as a double.
const initialCoins = 2n ** 53n + 1n
const assetsPerTransaction = 2_000_017n

/** The coin store of the account that deposits go to. */
export const coinStore = defineResource(
  depositAccount,
  `0x1::coin::CoinStore<${nativeCoinType}>`,
  (ledger, version) =>
    structValue([
      [
        'coin',
        structValue([[
          'value',
          u64Value(initialCoins + depositSum(ledger, eventCountAt(ledger, depositStream, version)))
        ]])
      ],
      ['frozen', boolValue(false)],
      ['deposit_events', handleValue(ledger, depositStream, version)],
      ['withdraw_events', handleValue(ledger, emptyStream(depositAccount, 3n), version)]
    ])
)

/** Address of the primary store for a fungible asset of an owner. */
export function primaryStore (owner: Address, metadata: Address): Address {
  return hash('sha3-256', Buffer.concat([addressBytes(owner), addressBytes(metadata), Buffer.from([0xfc])]), 'hex')
}

/** Primary stores of the chain's own asset, by owner; all members are in the group of the store's object. */
export const primaryStores: ReadonlyMap<Address, ResourceDefinition> = new Map(
  [...knownSenders, addressOf('42')].map(owner => [owner, defineStore(owner)])
)

/** The resources of the chain's own coin as a fungible asset. */
export const assetMetadata = defineGroup(chainAsset, objectGroup, {
  '0x1::fungible_asset::Metadata': () =>
    structValue([
      ['name', textValue('Aptos Coin')],
      ['symbol', textValue('APT')],
      ['decimals', u8Value(8)],
      ['icon_uri', textValue('')],
      ['project_uri', textValue('')]
    ]),
  '0x1::object::ObjectCore': () => objectCore(addressOf('1'))
})

/** Returns the primary store of any owner; it exists once the owner has had the asset. */
export function storeOf (owner: Address): ResourceDefinition {
  return primaryStores.get(owner) ?? defineStore(owner)
}

function defineStore (owner: Address): ResourceDefinition {
  return defineGroup(primaryStore(owner, chainAsset), objectGroup, {
    '0x1::fungible_asset::FungibleStore' (ledger, version) {
      const balance = assetBalanceAt(ledger, owner, version)
      return balance === undefined
        ? undefined
        : structValue([['metadata', structValue([['inner', addressValue(chainAsset)]])], [
          'balance',
          u64Value(balance)
        ], ['frozen', boolValue(false)]])
    },
    '0x1::object::ObjectCore': (ledger, version) =>
      assetBalanceAt(ledger, owner, version) === undefined ? undefined : objectCore(owner)
  })
}

function assetBalanceAt (ledger: Ledger, owner: Address, version: bigint): bigint | undefined {
  const drawn = primaryStores.has(owner)
    ? initialAssets - assetsPerTransaction * drawnSequenceAt(ledger, owner, version)
    : undefined
  const change = ledger.submissions.balanceChangeAt(owner, version)
  return drawn === undefined && change === undefined ? undefined : (drawn ?? 0n) + (change ?? 0n)
}

/** Encodes the resource that every object has. */
export function objectCore (owner: Address): EncodedValue {
  return structValue([
    ['guid_creation_num', u64Value(1_125_899_906_842_624n)],
    ['owner', addressValue(owner)],
    ['allow_ungated_transfer', boolValue(true)],
    ['transfer_events', structValue([['counter', u64Value(0n)], ['guid', guidValue(owner, 0n)]])]
  ])
}

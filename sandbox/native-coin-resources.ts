import { hash } from 'node:crypto'
import { type Address, addressBytes, addressOf } from './address.js'
import { depositStream, depositAccount, depositSum, emptyStream } from './deposit-events.js'
import { type Ledger } from './ledger.js'
import { defineGroup, defineResource, handleValue, type ResourceDefinition } from './resource-definition.js'
import { drawnSequenceAt, knownSenders } from './sender-schedule.js'
import { initialAssets } from './submissions.js'
import { eventCountAt } from './account-event-stream.js'
import {
  type EncodedValue,
  addressValue,
  boolValue,
  structValue,
  textValue,
  u64Value,
  u8Value
} from './encoded-value.js'

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
    [
      'transfer_events',
      structValue([['counter', u64Value(0n)], [
        'guid',
        structValue([['id', structValue([['creation_num', u64Value(0n)], ['addr', addressValue(owner)]])]])
      ]])
    ]
  ])
}

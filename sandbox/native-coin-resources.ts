import { hash } from 'node:crypto'
import { type Address, addressBytes, addressOf } from './address.js'
import { depositStreams, depositAccount, depositsBefore, depositSum, emptyStream } from './deposit-events.js'
import { type Ledger } from './ledger.js'
import {
  type ResourceContent,
  handleValue,
  definePlainResource,
  type ResourceDefinition
} from './resource-definition.js'
import { knownSenders, nextSequenceAt } from './known-senders.js'
import { eventCountAt, type EventStream } from './event-stream.js'
import { addressValue, boolValue, structValue, textValue, u64Value, u8Value } from './encoded-value.js'

/** The type of the chain's own coin. */
export const chainCoin = '0x1::aptos_coin::AptosCoin'

/** The metadata of the chain's own coin as a fungible asset. */
export const chainAsset = addressOf('a')

// Exceeds 2^53, so that tests detect a client that parses the amount as a double.
const initialCoins = 2n ** 53n + 1n
const initialAssets = 10n ** 12n
const assetsPerTransaction = 2_000_017n

/** The coin store of the account that deposits go to. */
export const coinStore: ResourceDefinition = {
  type: `0x1::coin::CoinStore<${chainCoin}>`,
  contentAt (ledger, version) {
    const height = Number(ledger.blockOf(version).height)
    const { goneAt, backAt } = ledger.remaking ?? { goneAt: Infinity, backAt: Infinity }
    const [first, second] = depositStreams(ledger)
    if (first !== undefined && height < goneAt) {
      return coinStoreContent(
        ledger,
        first,
        3n,
        initialCoins + depositSum(ledger, eventCountAt(ledger, first, version)),
        version
      )
    }
    if (second === undefined || height < backAt) return undefined
    const before = depositsBefore(backAt)
    return coinStoreContent(
      ledger,
      second,
      5n,
      depositSum(ledger, before + eventCountAt(ledger, second, version)) - depositSum(ledger, before),
      version
    )
  }
}

/** Address of the primary store for a fungible asset of an owner. */
export function primaryStore (owner: Address, metadata: Address): Address {
  return hash('sha3-256', Buffer.concat([addressBytes(owner), addressBytes(metadata), Buffer.from([0xfc])]), 'hex')
}

/** Returns the fungible store at an address; empty unless it is the primary store of a known owner. */
export function storeDefinitions (address: Address): ResourceDefinition[] {
  const owner = [depositAccount, ...knownSenders, addressOf('42')].find(known =>
    primaryStore(known, chainAsset) === address
  )
  if (owner === undefined) return []
  const contentAt = (ledger: Ledger, version: bigint): ResourceContent | undefined => {
    const balance = assetBalanceAt(ledger, owner, version)
    if (balance === undefined) return undefined
    return {
      handles: {},
      value: structValue([['metadata', structValue([['inner', addressValue(chainAsset)]])], [
        'balance',
        u64Value(balance)
      ], ['frozen', boolValue(false)]])
    }
  }
  return [{ type: '0x1::fungible_asset::FungibleStore', contentAt }]
}

/** The resources of the chain's own coin as a fungible asset. */
export const assetResources: readonly ResourceDefinition[] = [
  definePlainResource('0x1::fungible_asset::Metadata', () =>
    structValue([
      ['name', textValue('Aptos Coin')],
      ['symbol', textValue('APT')],
      ['decimals', u8Value(8)],
      ['icon_uri', textValue('')],
      ['project_uri', textValue('')]
    ]))
]

// The balance of the destroyed coin store moves to the depositor's fungible store, as in the migration of coins.
function assetBalanceAt (ledger: Ledger, owner: Address, version: bigint): bigint | undefined {
  if (owner !== depositAccount) return initialAssets - assetsPerTransaction * nextSequenceAt(ledger, owner, version)
  const { remaking } = ledger
  if (remaking === undefined || ledger.blockOf(version).height < remaking.goneAt) return undefined
  return initialCoins + depositSum(ledger, depositsBefore(remaking.goneAt))
}

function coinStoreContent (
  ledger: Ledger,
  deposits: EventStream,
  withdrawals: bigint,
  value: bigint,
  version: bigint
): ResourceContent {
  const handles = { deposit_events: deposits, withdraw_events: emptyStream(depositAccount, withdrawals) }
  return {
    handles,
    value: structValue([
      ['coin', structValue([['value', u64Value(value)]])],
      ['frozen', boolValue(false)],
      ['deposit_events', handleValue(ledger, handles.deposit_events, version)],
      ['withdraw_events', handleValue(ledger, handles.withdraw_events, version)]
    ])
  }
}

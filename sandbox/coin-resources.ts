import { hash } from 'node:crypto'
import { type Address, addressBytes, addressOf } from './address.js'
import { depositLives, depositor, depositsBefore, depositSum, emptyStream } from './deposits.js'
import { type Ledger } from './ledger.js'
import { type Held, handleValue, plain, type ResourcePlan } from './resource-plan.js'
import { senders, sequenceAt } from './senders.js'
import { countOf, type Stream } from './stream.js'
import { addressValue, boolValue, structValue, textValue, u64Value, u8Value } from './value.js'

/** The type of the chain's own coin. */
export const chainCoin = '0x1::aptos_coin::AptosCoin'

/** The metadata of the chain's own coin as a fungible asset. */
export const chainAsset = addressOf('a')

// More than a double can tell from its neighbours, so that a client that reads it as one is found out.
const begunWith = 2n ** 53n + 1n
const firstOwned = 10n ** 12n
const spent = 2_000_017n

/** The coin store of the account that deposits go to. */
export const coinStore: ResourcePlan = {
  type: `0x1::coin::CoinStore<${chainCoin}>`,
  at (ledger, version) {
    const height = Number(ledger.blockOf(version).height)
    const { goneAt, backAt } = ledger.remaking ?? { goneAt: Infinity, backAt: Infinity }
    const [first, second] = depositLives(ledger)
    if (first !== undefined && height < goneAt) {
      return storeOf(ledger, first, 3n, begunWith + depositSum(ledger, countOf(ledger, first, version)), version)
    }
    if (second === undefined || height < backAt) return undefined
    const before = depositsBefore(backAt)
    return storeOf(
      ledger,
      second,
      5n,
      depositSum(ledger, before + countOf(ledger, second, version)) - depositSum(ledger, before),
      version
    )
  }
}

/** Where the account of an owner keeps a fungible asset. */
export function primaryStore (owner: Address, metadata: Address): Address {
  return hash('sha3-256', Buffer.concat([addressBytes(owner), addressBytes(metadata), Buffer.from([0xfc])]), 'hex')
}

/** The fungible store at an address that is the primary store of one of the known owners. */
export function storePlans (address: Address): ResourcePlan[] {
  const owner = [depositor, ...senders, addressOf('42')].find(known => primaryStore(known, chainAsset) === address)
  if (owner === undefined) return []
  const owned = (ledger: Ledger, version: bigint): Held | undefined => {
    const balance = assetsOf(ledger, owner, version)
    if (balance === undefined) return undefined
    return {
      handles: {},
      value: structValue([['metadata', structValue([['inner', addressValue(chainAsset)]])], [
        'balance',
        u64Value(balance)
      ], ['frozen', boolValue(false)]])
    }
  }
  return [{ type: '0x1::fungible_asset::FungibleStore', at: owned }]
}

/** The resources of the chain's own coin as a fungible asset. */
export const assetResources: readonly ResourcePlan[] = [
  plain('0x1::fungible_asset::Metadata', () =>
    structValue([
      ['name', textValue('Aptos Coin')],
      ['symbol', textValue('APT')],
      ['decimals', u8Value(8)],
      ['icon_uri', textValue('')],
      ['project_uri', textValue('')]
    ]))
]

// What the destroyed coin store held has moved here, as in the migration of coins.
function assetsOf (ledger: Ledger, owner: Address, version: bigint): bigint | undefined {
  if (owner !== depositor) return firstOwned - spent * sequenceAt(ledger, owner, version)
  const { remaking } = ledger
  if (remaking === undefined || ledger.blockOf(version).height < remaking.goneAt) return undefined
  return begunWith + depositSum(ledger, depositsBefore(remaking.goneAt))
}

function storeOf (ledger: Ledger, deposits: Stream, withdrawals: bigint, value: bigint, version: bigint): Held {
  const handles = { deposit_events: deposits, withdraw_events: emptyStream(depositor, withdrawals) }
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

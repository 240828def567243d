import { addressOf } from './address.js'
import { emptyStream } from './deposit-events.js'
import { digestBytes } from './seeded-digest.js'
import { newBlockStream, newEpochStream } from './ledger-events.js'
import { epochBlocks, type Ledger } from './ledger.js'
import { type ContentAt, defineResource, handleValue, type ResourceDefinition } from './resource-definition.js'
import {
  boolValue,
  bytesValue,
  optionValue,
  structValue,
  textValue,
  u128Value,
  u64Value,
  u8Value
} from './encoded-value.js'

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

import { addressOf } from './address.js'
import { accountPlan } from './account-resource.js'
import { emptyStream } from './deposits.js'
import { digest } from './digest.js'
import { newBlockEvents, newEpochEvents } from './events.js'
import { epochBlocks, type Ledger } from './ledger.js'
import { handleValue, plain, type ResourcePlan } from './resource-plan.js'
import { boolValue, bytesValue, optionValue, structValue, textValue, u128Value, u64Value, u8Value } from './value.js'

const one = addressOf('1')
const intervalEvents = emptyStream(one, 4n)

/** The resources of the account that holds the framework. */
export const frameworkResources: readonly ResourcePlan[] = [
  accountPlan(one),
  {
    type: '0x1::block::BlockResource',
    at (ledger, version) {
      const handles = { new_block_events: newBlockEvents, update_epoch_interval_events: intervalEvents }
      return {
        handles,
        value: structValue([
          ['height', u64Value(ledger.blockOf(version).height)],
          ['epoch_interval', u64Value(BigInt(epochBlocks) * 250_000n)],
          ['new_block_events', handleValue(ledger, newBlockEvents, version)],
          ['update_epoch_interval_events', handleValue(ledger, intervalEvents, version)]
        ])
      }
    }
  },
  {
    type: '0x1::reconfiguration::Configuration',
    at (ledger, version) {
      const { epoch, height } = ledger.blockOf(version)
      const began = ledger.block(Math.floor(Number(height) / epochBlocks) * epochBlocks)
      return {
        handles: { events: newEpochEvents },
        value: structValue([
          ['epoch', u64Value(epoch)],
          ['last_reconfiguration_time', u64Value(began.timestampUsec)],
          ['events', handleValue(ledger, newEpochEvents, version)]
        ])
      }
    }
  },
  plain('0x1::chain_id::ChainId', ({ chainId }) => structValue([['id', u8Value(chainId)]])),
  plain(
    '0x1::timestamp::CurrentTimeMicroseconds',
    (ledger, version) => structValue([['microseconds', u64Value(ledger.blockOf(version).timestampUsec)]])
  ),
  plain(
    '0x1::version::Version',
    (ledger, version) => structValue([['major', u64Value(ledger.blockOf(version).epoch)]])
  ),
  plain('0x1::state_storage::StateStorageUsage', (ledger, version) => {
    const { epoch } = ledger.blockOf(version)
    return structValue([['epoch', u64Value(epoch)], [
      'usage',
      structValue([['items', u64Value(epoch * 1_009n)], ['bytes', u64Value(epoch * 65_537n)]])
    ]])
  }),
  plain(
    '0x1::transaction_fee::TransactionFee',
    () => structValue([['burn_percentage', u8Value(100)], ['enabled', boolValue(true)]])
  ),
  plain(
    '0x1::gas_schedule::GasScheduleV2',
    ledger =>
      structValue([['feature_version', u64Value(13n)], ['entries', bytesValue(digest(ledger.seed, 'gas schedule'))]])
  ),
  plain('0x1::coin::CoinInfo<0x1::aptos_coin::AptosCoin>', (ledger, version) =>
    structValue([
      ['name', textValue('Aptos Coin')],
      ['symbol', textValue('APT')],
      ['decimals', u8Value(8)],
      [
        'supply',
        optionValue(structValue([['aggregator', optionValue()], ['integer', optionValue(supply(ledger, version))]]))
      ]
    ]))
]

function supply (ledger: Ledger, version: bigint) {
  return structValue([['value', u128Value(10n ** 17n + ledger.blockOf(version).height)], [
    'limit',
    u128Value(2n ** 128n - 1n)
  ]])
}

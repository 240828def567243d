import { type EventRecord } from '../records.js'

/** Builds a module event, which belongs to no stream: all module events print the same guid. */
export function moduleEvent (type: string, data: unknown): EventRecord {
  return { guid: { creation_number: '0', account_address: '0x0' }, sequence_number: '0', type, data }
}

/** Builds the event that reports the gas charged for a transaction. */
export function feeStatement (gas: bigint): EventRecord {
  return moduleEvent('0x1::transaction_fee::FeeStatement', {
    execution_gas_units: String(gas - 2n),
    io_gas_units: '2',
    storage_fee_octas: '0',
    storage_fee_refund_octas: '0',
    total_charge_gas_units: String(gas)
  })
}

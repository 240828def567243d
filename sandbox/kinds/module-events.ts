import { type EventRecord } from '../schema/event.js'

/**
 * An event of a module itself, which is of no stream: a transaction prints it with the same guid as any other such
 * event.
 */
export function moduleEvent (type: string, data: unknown): EventRecord {
  return { guid: { creation_number: '0', account_address: '0x0' }, sequence_number: '0', type, data }
}

/** The event of what a transaction was charged. */
export function feeStatement (gas: bigint): EventRecord {
  return moduleEvent('0x1::transaction_fee::FeeStatement', {
    execution_gas_units: String(gas - 2n),
    io_gas_units: '2',
    storage_fee_octas: '0',
    storage_fee_refund_octas: '0',
    total_charge_gas_units: String(gas)
  })
}

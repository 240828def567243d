import { sequenceBytes } from '../../sandbox/bcs.js'
import { type Ledger } from '../../sandbox/ledger.js'
import { pageItems, type TailFault } from '../../sandbox/transaction-page-fault.js'

/** Returns the transactions of versions as the sandbox lists them, with the fault of a page. */
export function pageInJson (ledger: Ledger, versions: readonly bigint[], fault?: TailFault): Buffer {
  return Buffer.from(`[${pageItems(ledger, versions, 'json', fault).join(',')}]`)
}

/** Returns the same in BCS. */
export function pageInBcs (ledger: Ledger, versions: readonly bigint[], fault?: TailFault): Buffer {
  return sequenceBytes(pageItems(ledger, versions, 'bcs', fault).map(item => Buffer.from(item)))
}

/** Lists versions from one on. */
export function versionsFrom (first: bigint, count: number): bigint[] {
  return Array.from({ length: count }, (_, index) => first + BigInt(index))
}

import type { Aptos } from '@aptos-labs/ts-sdk'

/** What of a chain is asked for, in a form that a page can be handed. */
export interface Ground {
  /** A version of long ago, and the block that holds it. */
  readonly version: string
  readonly height: string
  readonly prunedVersion: string
  readonly prunedHeight: string
  readonly futureVersion: string
}

/** A call of the client, made of a node and through varve, in Node and in a page. */
export interface Call {
  readonly title: string
  /** The endpoint whose history it reads: where varve keeps that, the second time asks no node. Left out for what is of the moment. */
  readonly keptAs?: string
  /** Whether what it gives holds a cursor. */
  readonly showsCursor?: true
  readonly make: (aptos: Aptos, ground: Ground) => Promise<unknown>
}

const account = '0x1'
const handle = '0x5eed'
const seven = { key_type: 'u64', value_type: 'u64', key: '7' }
const nobody = `0x${'77'.repeat(32)}`

/** What a client can read. */
export const reads: readonly Call[] = [
  { title: 'ledger info', make: async aptos => await aptos.getLedgerInfo() },
  { title: 'gas', make: async aptos => await aptos.getGasPriceEstimation() },
  { title: 'modules', make: async aptos => await aptos.getAccountModules({ accountAddress: account }) },
  { title: 'modules of nobody', make: async aptos => await aptos.getAccountModules({ accountAddress: nobody }) },
  { title: 'a page of modules', showsCursor: true, make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 3 } }) },
  { title: 'table item', keptAs: 'table_item', make: async (aptos, { version }) => await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(version) } }) },
  { title: 'table item of a number', keptAs: 'table_item', make: async (aptos, { version }) => await aptos.getTableItem({ handle, data: { ...seven, value_type: 'u8' }, options: { ledgerVersion: Number(version) } }) },
  { title: 'table item of a struct', keptAs: 'table_item', make: async (aptos, { version }) => await aptos.getTableItem({ handle, data: { ...seven, value_type: '0x42::game::Line<u64>' }, options: { ledgerVersion: BigInt(version) } }) },
  { title: 'latest table item', make: async aptos => await aptos.getTableItem({ handle, data: seven }) },
  { title: 'block by version', keptAs: 'block_by_version', make: async (aptos, { version }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(version) }) },
  { title: 'block by version with its transactions', keptAs: 'block_by_version', make: async (aptos, { version }) => await aptos.getBlockByVersion({ ledgerVersion: Number(version), options: { withTransactions: true } }) },
  { title: 'block by height', keptAs: 'block_by_height', make: async (aptos, { height }) => await aptos.getBlockByHeight({ blockHeight: BigInt(height) }) },
  { title: 'block by height with its transactions', keptAs: 'block_by_height', make: async (aptos, { height }) => await aptos.getBlockByHeight({ blockHeight: Number(height), options: { withTransactions: true } }) }
]

/** What a client can be refused. */
export const refusals: readonly Call[] = [
  { title: 'table item that is not there', make: async (aptos, { version }) => await aptos.getTableItem({ handle, data: { ...seven, key: '18446744073709551615' }, options: { ledgerVersion: BigInt(version) } }) },
  { title: 'table item by a key of another type', make: async (aptos, { version }) => await aptos.getTableItem({ handle, data: { ...seven, key: 'x' }, options: { ledgerVersion: BigInt(version) } }) },
  { title: 'table item of a version to come', make: async (aptos, { futureVersion }) => await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(futureVersion) } }) },
  { title: 'table item of a pruned version', make: async (aptos, { prunedVersion }) => await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(prunedVersion) } }) },
  { title: 'block of a version to come', make: async (aptos, { futureVersion }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(futureVersion) }) },
  { title: 'block of a pruned version', make: async (aptos, { prunedVersion }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(prunedVersion) }) },
  { title: 'block of a height to come', make: async (aptos, { futureVersion }) => await aptos.getBlockByHeight({ blockHeight: BigInt(futureVersion) }) },
  { title: 'block of a pruned height', make: async (aptos, { prunedHeight }) => await aptos.getBlockByHeight({ blockHeight: BigInt(prunedHeight) }) },
  { title: 'a page of no modules', make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 0 } }) }
]

/** What varve refuses by itself, since no node could read it. */
export const mistakes: readonly Call[] = [
  { title: 'table item by a type that is none', make: async aptos => await aptos.getTableItem({ handle, data: { ...seven, key_type: 'u64<' } }) },
  { title: 'modules from a cursor that is none', make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { cursor: 'xyz' } }) }
]

import type { Aptos, ClientConfig } from '@aptos-labs/ts-sdk'
import type { EndpointName } from '#sandbox'

/** Parts of a chain that calls read, in a form that a page can receive. */
export interface ChainFixture {
  /** An old version, and the height of its block. */
  readonly version: string
  readonly height: string
  readonly prunedVersion: string
  readonly prunedHeight: string
  readonly futureVersion: string
  /** An old transaction, and a pending one. */
  readonly hash: string
  readonly pendingHash: string
}

/** A call of the client, to a node and through varve, in Node.js and in a page. */
export interface Call {
  readonly title: string
  /**
   * Endpoint whose history it reads, if varve stores it: the second call then needs no upstream. Undefined for moving
   * reads.
   */
  readonly storedAs?: EndpointName
  /** True if its result has a cursor. */
  readonly showsCursor?: true
  readonly make: (aptos: Aptos, ground: ChainFixture) => Promise<unknown>
}

const account = '0x1'
const handle = '0x5eed'
const seven = { key_type: 'u64', value_type: 'u64', key: '7' }
const unusedAddress = `0x${'77'.repeat(32)}`
// Writes the address in full, as the client demands for all but the first few.
const player = `0x${'cafe'.padStart(64, '0')}`
const sender = `0x${'a11ce'.padStart(64, '0')}`
const coin = '0x1::aptos_coin::AptosCoin'
const oracle = `0x${'feed'.padStart(64, '0')}::oracle` as const
const line = '0x42::game::Line<0x1::option::Option<u64>>'

/** Reads that succeed. */
export const readCalls: readonly Call[] = [
  { title: 'ledger info', make: async aptos => await aptos.getLedgerInfo() },
  { title: 'gas', make: async aptos => await aptos.getGasPriceEstimation() },
  { title: 'modules', make: async aptos => await aptos.getAccountModules({ accountAddress: account }) },
  {
    title: 'modules of an unused address',
    make: async aptos => await aptos.getAccountModules({ accountAddress: unusedAddress })
  },
  {
    title: 'a page of modules',
    showsCursor: true,
    make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 3 } })
  },
  {
    title: 'module',
    storedAs: 'account_module',
    make: async (aptos, { version }) =>
      await aptos.getAccountModule({
        accountAddress: account,
        moduleName: 'coin',
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'latest module',
    make: async aptos => await aptos.getAccountModule({ accountAddress: account, moduleName: 'coin' })
  },
  { title: 'account', make: async aptos => await aptos.getAccountInfo({ accountAddress: player }) },
  {
    title: 'account without resources',
    make: async aptos => await aptos.getAccountInfo({ accountAddress: unusedAddress })
  },
  { title: 'resources', make: async aptos => await aptos.getAccountResources({ accountAddress: player }) },
  {
    title: 'a page of resources',
    showsCursor: true,
    make: async aptos => await aptos.getAccountResourcesPage({ accountAddress: player, options: { limit: 3 } })
  },
  {
    title: 'resource',
    storedAs: 'account_resource',
    make: async (aptos, { version }) =>
      await aptos.getAccountResource({
        accountAddress: account,
        resourceType: '0x1::block::BlockResource',
        options: { ledgerVersion: Number(version) }
      })
  },
  {
    title: 'resource of a type with arguments',
    storedAs: 'account_resource',
    make: async (aptos, { version }) =>
      await aptos.getAccountResource({
        accountAddress: player,
        resourceType: line,
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'latest resource',
    make: async aptos =>
      await aptos.getAccountResource({ accountAddress: player, resourceType: `0x1::coin::CoinStore<${coin}>` })
  },
  { title: 'balance of a coin', make: async aptos => await aptos.getBalance({ accountAddress: player, asset: coin }) },
  {
    title: 'balance of an asset',
    make: async aptos => await aptos.getBalance({ accountAddress: `0x${'b0b'.padStart(64, '0')}`, asset: '0xa' })
  },
  { title: 'coins of an account', make: async aptos => await aptos.getAccountAPTAmount({ accountAddress: player }) },
  {
    title: 'view',
    storedAs: 'view',
    make: async (aptos, { version }) =>
      await aptos.view({
        payload: {
          function: `${oracle}::several`,
          functionArguments: [255, 2n ** 100n, true, 'text \u00e9', [1, 2, 3], [2n ** 64n - 1n, 0n], account]
        },
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'view with a type, in the node\'s JSON',
    storedAs: 'view',
    make: async (aptos, { version }) =>
      await aptos.viewJson({
        payload: { function: `${oracle}::price_of`, typeArguments: [coin], functionArguments: ['7'] },
        options: { ledgerVersion: Number(version) }
      })
  },
  {
    title: 'latest view',
    make: async aptos =>
      await aptos.view({
        payload: { function: '0x1::coin::balance', typeArguments: [coin], functionArguments: [player] }
      })
  },
  {
    title: 'latest view, in JSON',
    make: async aptos => await aptos.viewJson({ payload: { function: '0x1::block::get_current_block_height' } })
  },
  {
    title: 'table item',
    storedAs: 'table_item',
    make: async (aptos, { version }) =>
      await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(version) } })
  },
  {
    title: 'table item of a number',
    storedAs: 'table_item',
    make: async (aptos, { version }) =>
      await aptos.getTableItem({
        handle,
        data: { ...seven, value_type: 'u8' },
        options: { ledgerVersion: Number(version) }
      })
  },
  {
    title: 'table item of a struct',
    storedAs: 'table_item',
    make: async (aptos, { version }) =>
      await aptos.getTableItem({
        handle,
        data: { ...seven, value_type: '0x42::game::Line<u64>' },
        options: { ledgerVersion: BigInt(version) }
      })
  },
  { title: 'latest table item', make: async aptos => await aptos.getTableItem({ handle, data: seven }) },
  {
    title: 'block by version',
    storedAs: 'block_by_version',
    make: async (aptos, { version }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(version) })
  },
  {
    title: 'block by version with its transactions',
    storedAs: 'block_by_version',
    make: async (aptos, { version }) =>
      await aptos.getBlockByVersion({ ledgerVersion: Number(version), options: { withTransactions: true } })
  },
  {
    title: 'block by height',
    storedAs: 'block_by_height',
    make: async (aptos, { height }) => await aptos.getBlockByHeight({ blockHeight: BigInt(height) })
  },
  {
    title: 'block by height with its transactions',
    storedAs: 'block_by_height',
    make: async (aptos, { height }) =>
      await aptos.getBlockByHeight({ blockHeight: Number(height), options: { withTransactions: true } })
  },
  {
    title: 'transaction by version',
    storedAs: 'transaction_by_version',
    make: async (aptos, { version }) => await aptos.getTransactionByVersion({ ledgerVersion: BigInt(version) })
  },
  {
    title: 'transaction by hash',
    storedAs: 'transaction_by_hash',
    make: async (aptos, { hash }) => await aptos.getTransactionByHash({ transactionHash: hash })
  },
  {
    title: 'transactions from a version',
    storedAs: 'transactions',
    make: async (aptos, { version }) => await aptos.getTransactions({ options: { offset: BigInt(version), limit: 7 } })
  },
  { title: 'latest transactions', make: async aptos => await aptos.getTransactions() },
  {
    title: 'transactions of an account',
    make: async aptos => await aptos.getAccountTransactions({ accountAddress: sender })
  },
  {
    title: 'transactions of an account from a number',
    make: async aptos =>
      await aptos.getAccountTransactions({ accountAddress: sender, options: { offset: 20, limit: 3 } })
  },
  {
    title: 'whether a transaction waits',
    make: async (aptos, { hash }) => await aptos.isPendingTransaction({ transactionHash: hash })
  },
  {
    title: 'whether one waits that does',
    make: async (aptos, { pendingHash }) => await aptos.isPendingTransaction({ transactionHash: pendingHash })
  },
  {
    title: 'waiting for a transaction that is committed',
    make: async (aptos, { hash }) =>
      await aptos.waitForTransaction({ transactionHash: hash, options: { checkSuccess: false } })
  }
]

/** Reads that the node rejects. */
export const upstreamErrorCalls: readonly Call[] = [
  {
    title: 'table item that is not there',
    make: async (aptos, { version }) =>
      await aptos.getTableItem({
        handle,
        data: { ...seven, key: '777777' },
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'table item by a key of another type',
    make: async (aptos, { version }) =>
      await aptos.getTableItem({ handle, data: { ...seven, key: 'x' }, options: { ledgerVersion: BigInt(version) } })
  },
  {
    title: 'resource that is not there',
    make: async (aptos, { version }) =>
      await aptos.getAccountResource({
        accountAddress: account,
        resourceType: line,
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'latest resource that is not there',
    make: async aptos =>
      await aptos.getAccountResource({ accountAddress: unusedAddress, resourceType: `0x1::coin::CoinStore<${coin}>` })
  },
  {
    title: 'resource of a version to come',
    make: async (aptos, { futureVersion }) =>
      await aptos.getAccountResource({
        accountAddress: account,
        resourceType: '0x1::block::BlockResource',
        options: { ledgerVersion: BigInt(futureVersion) }
      })
  },
  {
    title: 'resource of a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.getAccountResource({
        accountAddress: account,
        resourceType: '0x1::block::BlockResource',
        options: { ledgerVersion: BigInt(prunedVersion) }
      })
  },
  {
    title: 'module that is not there',
    make: async (aptos, { version }) =>
      await aptos.getAccountModule({
        accountAddress: account,
        moduleName: 'nothing',
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'latest module that is not there',
    make: async aptos => await aptos.getAccountModule({ accountAddress: account, moduleName: 'nothing' })
  },
  {
    title: 'module of a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.getAccountModule({
        accountAddress: account,
        moduleName: 'coin',
        options: { ledgerVersion: BigInt(prunedVersion) }
      })
  },
  {
    title: 'the account that a key was first of',
    make: async aptos => (await aptos.lookupOriginalAccountAddress({ authenticationKey: unusedAddress })).toString()
  },
  {
    title: 'view that aborts',
    make: async (aptos, { version }) =>
      await aptos.view({
        payload: { function: `${oracle}::at_most_a_hundred`, functionArguments: [101] },
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'latest view that aborts',
    make: async aptos =>
      await aptos.viewJson({ payload: { function: `${oracle}::at_most_a_hundred`, functionArguments: ['101'] } })
  },
  {
    title: 'view of no function',
    make: async aptos => await aptos.viewJson({ payload: { function: '0x1::coin::nothing' } })
  },
  {
    title: 'view with an argument too few',
    make: async (aptos, { version }) =>
      await aptos.viewJson({
        payload: { function: `${oracle}::at_most_a_hundred` },
        options: { ledgerVersion: BigInt(version) }
      })
  },
  {
    title: 'view of a version to come',
    make: async (aptos, { futureVersion }) =>
      await aptos.viewJson({
        payload: { function: `${oracle}::height` },
        options: { ledgerVersion: BigInt(futureVersion) }
      })
  },
  {
    title: 'view of a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.viewJson({
        payload: { function: `${oracle}::height` },
        options: { ledgerVersion: BigInt(prunedVersion) }
      })
  },
  {
    title: 'table item of a version to come',
    make: async (aptos, { futureVersion }) =>
      await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(futureVersion) } })
  },
  {
    title: 'table item of a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.getTableItem({ handle, data: seven, options: { ledgerVersion: BigInt(prunedVersion) } })
  },
  {
    title: 'block of a version to come',
    make: async (aptos, { futureVersion }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(futureVersion) })
  },
  {
    title: 'block of a pruned version',
    make: async (aptos, { prunedVersion }) => await aptos.getBlockByVersion({ ledgerVersion: BigInt(prunedVersion) })
  },
  {
    title: 'block of a height to come',
    make: async (aptos, { futureVersion }) => await aptos.getBlockByHeight({ blockHeight: BigInt(futureVersion) })
  },
  {
    title: 'block of a pruned height',
    make: async (aptos, { prunedHeight }) => await aptos.getBlockByHeight({ blockHeight: BigInt(prunedHeight) })
  },
  {
    title: 'transaction of a version to come',
    make: async (aptos, { futureVersion }) =>
      await aptos.getTransactionByVersion({ ledgerVersion: BigInt(futureVersion) })
  },
  {
    title: 'transaction of a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.getTransactionByVersion({ ledgerVersion: BigInt(prunedVersion) })
  },
  {
    title: 'transaction of an unknown hash',
    make: async aptos => await aptos.getTransactionByHash({ transactionHash: unusedAddress })
  },
  {
    title: 'transactions from a version to come',
    make: async (aptos, { futureVersion }) =>
      await aptos.getTransactions({ options: { offset: BigInt(futureVersion) } })
  },
  {
    title: 'transactions from a pruned version',
    make: async (aptos, { prunedVersion }) =>
      await aptos.getTransactions({ options: { offset: BigInt(prunedVersion), limit: 7 } })
  },
  { title: 'no transactions', make: async aptos => await aptos.getTransactions({ options: { limit: 0 } }) },
  {
    title: 'a page of no modules',
    make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 0 } })
  }
]

/** Reads that varve rejects itself, because no node accepts them. */
export const varveErrorCalls: readonly Call[] = [
  {
    title: 'table item by a type that is none',
    make: async aptos => await aptos.getTableItem({ handle, data: { ...seven, key_type: 'u64<' } })
  },
  {
    title: 'resource of a type that is none',
    make: async aptos => await aptos.getAccountResource({ accountAddress: account, resourceType: '0x1::block::<>' })
  },
  {
    title: 'module by a name that is none',
    make: async aptos => await aptos.getAccountModule({ accountAddress: account, moduleName: '0x' })
  },
  {
    title: 'transaction by a hash that is none',
    make: async aptos => await aptos.getTransactionByHash({ transactionHash: '0x12' })
  },
  {
    title: 'modules from a cursor that is none',
    make: async aptos => await aptos.getAccountModulesPage({ accountAddress: account, options: { cursor: 'xyz' } })
  }
]

/** Returns a call by its title. */
export function callOf (title: string): Call {
  const call = [...readCalls, ...upstreamErrorCalls].find(call => call.title === title)
  if (call === undefined) throw new Error(`there is no call ${title}`)
  return call
}

/** The official client. */
export type Sdk = typeof import('@aptos-labs/ts-sdk')

/** Returns a client of a node, or of varve. */
export function clientOf (
  { Aptos, AptosConfig, Network }: Sdk,
  upstreamUrl: string,
  clientConfig: ClientConfig = {}
): Aptos {
  return new Aptos(new AptosConfig({ network: Network.CUSTOM, fullnode: `${upstreamUrl}/v1`, clientConfig }))
}

/** Returns the result or error of a call as text: equal if a caller could see no difference. */
export async function callResult (sdk: Sdk, aptos: Aptos, { make }: Call, ground: ChainFixture): Promise<string> {
  try {
    return printed({ value: await make(aptos, ground) })
  } catch (error) {
    // Replaces the address, which alone may differ.
    return printed({ error: errorResult(sdk, error as Error) }).replaceAll(String(aptos.config.fullnode), 'NODE')
  }
}

function errorResult (sdk: Sdk, error: Error): object {
  const { name, message } = error
  if (!(error instanceof sdk.AptosApiError)) return { name, message }
  const { status, statusText, url, data } = error
  return { class: 'AptosApiError', name, message, status, statusText, url, data: data as unknown }
}

// Prints values that JSON lacks in a distinct form.
function printed (value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'bigint') return { bigint: String(member) }
    return member === undefined ? { undefined: true } : member
  })
}

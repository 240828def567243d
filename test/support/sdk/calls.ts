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
const block = '0x1::block::BlockResource'
const cursorTitles = ['a page of modules', 'a page of resources']

const at = (version: string): { ledgerVersion: bigint } => ({ ledgerVersion: BigInt(version) })

function callsOf (made: Readonly<Record<string, Call['make']>>, storedAs?: EndpointName): Call[] {
  return Object.entries(made).map(([title, make]) => ({
    title,
    make,
    ...storedAs !== undefined && { storedAs },
    ...cursorTitles.includes(title) && { showsCursor: true }
  }))
}

/** Reads that succeed. */
export const readCalls: readonly Call[] = [
  ...callsOf({
    module: async (aptos, { version }) =>
      await aptos.getAccountModule({ accountAddress: account, moduleName: 'coin', options: at(version) })
  }, 'account_module'),
  ...callsOf({
    resource: async (aptos, { version }) =>
      await aptos.getAccountResource({
        accountAddress: account,
        resourceType: block,
        options: { ledgerVersion: Number(version) }
      }),
    'resource of a type with arguments': async (aptos, { version }) =>
      await aptos.getAccountResource({ accountAddress: player, resourceType: line, options: at(version) })
  }, 'account_resource'),
  ...callsOf({
    view: async (aptos, { version }) =>
      await aptos.view({
        payload: {
          function: `${oracle}::several`,
          functionArguments: [255, 2n ** 100n, true, 'text \u00e9', [1, 2, 3], [2n ** 64n - 1n, 0n], account]
        },
        options: at(version)
      }),
    'view with a type, in the node\'s JSON': async (aptos, { version }) =>
      await aptos.viewJson({
        payload: { function: `${oracle}::price_of`, typeArguments: [coin], functionArguments: ['7'] },
        options: { ledgerVersion: Number(version) }
      })
  }, 'view'),
  ...callsOf({
    'table item': async (aptos, { version }) => await aptos.getTableItem({ handle, data: seven, options: at(version) }),
    'table item of a number': async (aptos, { version }) =>
      await aptos.getTableItem({
        handle,
        data: { ...seven, value_type: 'u8' },
        options: { ledgerVersion: Number(version) }
      }),
    'table item of a struct': async (aptos, { version }) =>
      await aptos.getTableItem({
        handle,
        data: { ...seven, value_type: '0x42::game::Line<u64>' },
        options: at(version)
      })
  }, 'table_item'),
  ...callsOf({
    'block by version': async (aptos, { version }) => await aptos.getBlockByVersion(at(version)),
    'block by version with its transactions': async (aptos, { version }) =>
      await aptos.getBlockByVersion({ ledgerVersion: Number(version), options: { withTransactions: true } })
  }, 'block_by_version'),
  ...callsOf({
    'block by height': async (aptos, { height }) => await aptos.getBlockByHeight({ blockHeight: BigInt(height) }),
    'block by height with its transactions': async (aptos, { height }) =>
      await aptos.getBlockByHeight({ blockHeight: Number(height), options: { withTransactions: true } })
  }, 'block_by_height'),
  ...callsOf({
    'transaction by version': async (aptos, { version }) => await aptos.getTransactionByVersion(at(version))
  }, 'transaction_by_version'),
  ...callsOf({
    'transaction by hash': async (aptos, { hash }) => await aptos.getTransactionByHash({ transactionHash: hash })
  }, 'transaction_by_hash'),
  ...callsOf({
    'transactions from a version': async (aptos, { version }) =>
      await aptos.getTransactions({ options: { offset: BigInt(version), limit: 7 } })
  }, 'transactions'),
  // After those of history, which must go upstream.
  ...callsOf({
    'ledger info': async aptos => await aptos.getLedgerInfo(),
    gas: async aptos => await aptos.getGasPriceEstimation(),
    modules: async aptos => await aptos.getAccountModules({ accountAddress: account }),
    'modules of an unused address': async aptos => await aptos.getAccountModules({ accountAddress: unusedAddress }),
    'a page of modules': async aptos =>
      await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 3 } }),
    'latest module': async aptos => await aptos.getAccountModule({ accountAddress: account, moduleName: 'coin' }),
    account: async aptos => await aptos.getAccountInfo({ accountAddress: player }),
    'account without resources': async aptos => await aptos.getAccountInfo({ accountAddress: unusedAddress }),
    resources: async aptos => await aptos.getAccountResources({ accountAddress: player }),
    'a page of resources': async aptos =>
      await aptos.getAccountResourcesPage({ accountAddress: player, options: { limit: 3 } }),
    'latest resource': async aptos =>
      await aptos.getAccountResource({ accountAddress: player, resourceType: `0x1::coin::CoinStore<${coin}>` }),
    'balance of a coin': async aptos => await aptos.getBalance({ accountAddress: player, asset: coin }),
    'balance of an asset': async aptos =>
      await aptos.getBalance({ accountAddress: `0x${'b0b'.padStart(64, '0')}`, asset: '0xa' }),
    'coins of an account': async aptos => await aptos.getAccountAPTAmount({ accountAddress: player }),
    'latest view': async aptos =>
      await aptos.view({
        payload: { function: '0x1::coin::balance', typeArguments: [coin], functionArguments: [player] }
      }),
    'latest view, in JSON': async aptos =>
      await aptos.viewJson({ payload: { function: '0x1::block::get_current_block_height' } }),
    'latest table item': async aptos => await aptos.getTableItem({ handle, data: seven }),
    'latest transactions': async aptos => await aptos.getTransactions(),
    'transactions of an account': async aptos => await aptos.getAccountTransactions({ accountAddress: sender }),
    'transactions of an account from a number': async aptos =>
      await aptos.getAccountTransactions({ accountAddress: sender, options: { offset: 20, limit: 3 } }),
    'whether a transaction waits': async (aptos, { hash }) =>
      await aptos.isPendingTransaction({ transactionHash: hash }),
    'whether one waits that does': async (aptos, { pendingHash }) =>
      await aptos.isPendingTransaction({ transactionHash: pendingHash }),
    'waiting for a transaction that is committed': async (aptos, { hash }) =>
      await aptos.waitForTransaction({ transactionHash: hash, options: { checkSuccess: false } })
  })
]

// Reads of a version that a node lacks.
const atAnyVersion: Readonly<Record<string, (aptos: Aptos, version: string) => Promise<unknown>>> = {
  resource: async (aptos, version) =>
    await aptos.getAccountResource({ accountAddress: account, resourceType: block, options: at(version) }),
  module: async (aptos, version) =>
    await aptos.getAccountModule({ accountAddress: account, moduleName: 'coin', options: at(version) }),
  view: async (aptos, version) =>
    await aptos.viewJson({ payload: { function: `${oracle}::height` }, options: at(version) }),
  'table item': async (aptos, version) => await aptos.getTableItem({ handle, data: seven, options: at(version) }),
  block: async (aptos, version) => await aptos.getBlockByVersion(at(version)),
  transaction: async (aptos, version) => await aptos.getTransactionByVersion(at(version)),
  transactions: async (aptos, version) =>
    await aptos.getTransactions({ options: { offset: BigInt(version), limit: 7 } })
}

/** Reads that the node rejects. */
export const upstreamErrorCalls: readonly Call[] = [
  ...Object.entries(atAnyVersion).flatMap(([what, read]) =>
    callsOf({
      [`${what} of a version to come`]: async (aptos, { futureVersion }) => await read(aptos, futureVersion),
      [`${what} of a pruned version`]: async (aptos, { prunedVersion }) => await read(aptos, prunedVersion)
    })
  ),
  ...callsOf({
    'table item that is not there': async (aptos, { version }) =>
      await aptos.getTableItem({ handle, data: { ...seven, key: '777777' }, options: at(version) }),
    'table item by a key of another type': async (aptos, { version }) =>
      await aptos.getTableItem({ handle, data: { ...seven, key: 'x' }, options: at(version) }),
    'resource that is not there': async (aptos, { version }) =>
      await aptos.getAccountResource({ accountAddress: account, resourceType: line, options: at(version) }),
    'latest resource that is not there': async aptos =>
      await aptos.getAccountResource({ accountAddress: unusedAddress, resourceType: `0x1::coin::CoinStore<${coin}>` }),
    'module that is not there': async (aptos, { version }) =>
      await aptos.getAccountModule({ accountAddress: account, moduleName: 'nothing', options: at(version) }),
    'latest module that is not there': async aptos =>
      await aptos.getAccountModule({ accountAddress: account, moduleName: 'nothing' }),
    'the account that a key was first of': async aptos =>
      (await aptos.lookupOriginalAccountAddress({ authenticationKey: unusedAddress })).toString(),
    'view that aborts': async (aptos, { version }) =>
      await aptos.view({
        payload: { function: `${oracle}::at_most_a_hundred`, functionArguments: [101] },
        options: at(version)
      }),
    'latest view that aborts': async aptos =>
      await aptos.viewJson({ payload: { function: `${oracle}::at_most_a_hundred`, functionArguments: ['101'] } }),
    'view of no function': async aptos => await aptos.viewJson({ payload: { function: '0x1::coin::nothing' } }),
    'view with an argument too few': async (aptos, { version }) =>
      await aptos.viewJson({ payload: { function: `${oracle}::at_most_a_hundred` }, options: at(version) }),
    'block of a height to come': async (aptos, { futureVersion }) =>
      await aptos.getBlockByHeight({ blockHeight: BigInt(futureVersion) }),
    'block of a pruned height': async (aptos, { prunedHeight }) =>
      await aptos.getBlockByHeight({ blockHeight: BigInt(prunedHeight) }),
    'transaction of an unknown hash': async aptos =>
      await aptos.getTransactionByHash({ transactionHash: unusedAddress }),
    'no transactions': async aptos => await aptos.getTransactions({ options: { limit: 0 } }),
    'a page of no modules': async aptos =>
      await aptos.getAccountModulesPage({ accountAddress: account, options: { limit: 0 } })
  })
]

/** Reads that varve rejects itself, because no node accepts them. */
export const varveErrorCalls: readonly Call[] = callsOf({
  'table item by a type that is none': async aptos =>
    await aptos.getTableItem({ handle, data: { ...seven, key_type: 'u64<' } }),
  'resource of a type that is none': async aptos =>
    await aptos.getAccountResource({ accountAddress: account, resourceType: '0x1::block::<>' }),
  'module by a name that is none': async aptos =>
    await aptos.getAccountModule({ accountAddress: account, moduleName: '0x' }),
  'transaction by a hash that is none': async aptos => await aptos.getTransactionByHash({ transactionHash: '0x12' }),
  'modules from a cursor that is none': async aptos =>
    await aptos.getAccountModulesPage({ accountAddress: account, options: { cursor: 'xyz' } })
})

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

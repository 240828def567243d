import { type RequestContext } from './request-context.js'
import { readAccount, readBalance, readResource, readResources, readModule, readModules } from './read-account.js'
import {
  readBlockByHeight,
  readBlockByVersion,
  readAccountTransactions,
  readAuxiliaryInfo,
  readTransactionByHash,
  readTransactionByVersion,
  readTransactions,
  readTransactionSummaries
} from './read-transactions.js'
import { readEventsByHandle, readEventsByNumber } from './read-events.js'
import { readGasPrice, readHealth, readIndex, readInfo, readSpec } from './read-node-endpoints.js'
import { readRawStateValue, readRawTableItem, readTableItem } from './read-table-item.js'
import { simulateTransaction, submitTransaction } from './submit-transaction.js'
import { readView } from './read-view.js'
import { type SandboxResponse } from './make-response.js'

/** Route of the node. */
export interface Route {
  readonly endpoint: EndpointName
  readonly method: 'GET' | 'POST'
  readonly path: readonly string[]
  readonly read: (context: RequestContext) => SandboxResponse
}

/** All routes of the node: endpoint, method, path and handler; `:` marks a parameter. */
const table = [
  ['table_item', 'POST', 'v1/tables/:/item', readTableItem],
  ['raw_table_item', 'POST', 'v1/tables/:/raw_item', readRawTableItem],
  ['raw_state_value', 'POST', 'v1/experimental/state_values/raw', readRawStateValue],
  ['account', 'GET', 'v1/accounts/:', readAccount],
  ['account_resources', 'GET', 'v1/accounts/:/resources', readResources],
  ['account_resource', 'GET', 'v1/accounts/:/resource/:', readResource],
  ['account_balance', 'GET', 'v1/accounts/:/balance/:', readBalance],
  ['account_module', 'GET', 'v1/accounts/:/module/:', readModule],
  ['account_modules', 'GET', 'v1/accounts/:/modules', readModules],
  ['account_events', 'GET', 'v1/accounts/:/events/:/:', readEventsByHandle],
  ['view', 'POST', 'v1/view', readView],
  ['events_by_creation_number', 'GET', 'v1/accounts/:/events/:', readEventsByNumber],
  ['account_transactions', 'GET', 'v1/accounts/:/transactions', readAccountTransactions],
  ['transaction_summaries', 'GET', 'v1/accounts/:/transaction_summaries', readTransactionSummaries],
  ['auxiliary_info', 'GET', 'v1/transactions/auxiliary_info', readAuxiliaryInfo],
  ['transactions', 'GET', 'v1/transactions', readTransactions],
  ['transaction_by_version', 'GET', 'v1/transactions/by_version/:', readTransactionByVersion],
  ['transaction_by_hash', 'GET', 'v1/transactions/by_hash/:', readTransactionByHash],
  ['transaction_wait_by_hash', 'GET', 'v1/transactions/wait_by_hash/:', readTransactionByHash],
  ['block_by_version', 'GET', 'v1/blocks/by_version/:', readBlockByVersion],
  ['block_by_height', 'GET', 'v1/blocks/by_height/:', readBlockByHeight],
  ['estimate_gas_price', 'GET', 'v1/estimate_gas_price', readGasPrice],
  ['info', 'GET', 'v1/info', readInfo],
  ['healthy', 'GET', 'v1/-/healthy', readHealth],
  ['spec', 'GET', 'v1/spec', readSpec],
  ['spec', 'GET', 'v1/spec.json', readSpec],
  ['index', 'GET', 'v1', readIndex],
  ['index', 'GET', 'v1/', readIndex],
  ['submit_transaction', 'POST', 'v1/transactions', submitTransaction],
  ['simulate_transaction', 'POST', 'v1/transactions/simulate', simulateTransaction]
] as const satisfies ReadonlyArray<readonly [string, Route['method'], string, Route['read']]>

const routes = table.map(([endpoint, method, path, read]): Route => ({ endpoint, method, path: path.split('/'), read }))

/** Endpoint of a request; `other` for an unknown path. */
export type EndpointName = typeof table[number][0] | 'other'

/** Returns the route of a path, that of the method if it has one; compares segments without decoding them. */
export function routeOf (segments: readonly string[], method: string): Route | undefined {
  const ofPath = routes.filter(({ path }) =>
    path.length === segments.length &&
    path.every((part, index) => part === ':' || part === segments[index])
  )
  return ofPath.find(route => route.method === (method === 'HEAD' ? 'GET' : method)) ?? ofPath[0]
}

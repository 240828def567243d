import { type RequestContext } from './request-context.js'
import { readAccount, readBalance, readResource, readResources, readModule, readModules } from './read-account.js'
import {
  readBlockByHeight,
  readBlockByVersion,
  readAccountTransactions,
  readTransactionByHash,
  readTransactionByVersion,
  readTransactions
} from './read-transactions.js'
import { readEventsByHandle, readEventsByNumber } from './read-events.js'
import { readGasPrice, readHealth, readIndex, readInfo, readSpec } from './read-node-endpoints.js'
import { readRawTableItem, readTableItem } from './read-table-item.js'
import { encodeSubmission, simulateTransaction, submitTransaction } from './submit-transaction.js'
import { readView } from './read-view.js'
import { type SandboxResponse } from './make-response.js'

/** Route of the node. */
export interface Route {
  readonly endpoint: string
  readonly method: 'GET' | 'POST'
  /** Segments of the path; `:` marks a parameter. */
  readonly path: readonly string[]
  readonly read: (context: RequestContext) => SandboxResponse
}

/** All routes of the node. */
export const routes = [
  { endpoint: 'table_item', method: 'POST', path: ['v1', 'tables', ':', 'item'], read: readTableItem },
  { endpoint: 'raw_table_item', method: 'POST', path: ['v1', 'tables', ':', 'raw_item'], read: readRawTableItem },
  { endpoint: 'account', method: 'GET', path: ['v1', 'accounts', ':'], read: readAccount },
  { endpoint: 'account_resources', method: 'GET', path: ['v1', 'accounts', ':', 'resources'], read: readResources },
  { endpoint: 'account_resource', method: 'GET', path: ['v1', 'accounts', ':', 'resource', ':'], read: readResource },
  { endpoint: 'account_balance', method: 'GET', path: ['v1', 'accounts', ':', 'balance', ':'], read: readBalance },
  { endpoint: 'account_module', method: 'GET', path: ['v1', 'accounts', ':', 'module', ':'], read: readModule },
  { endpoint: 'account_modules', method: 'GET', path: ['v1', 'accounts', ':', 'modules'], read: readModules },
  {
    endpoint: 'account_events',
    method: 'GET',
    path: ['v1', 'accounts', ':', 'events', ':', ':'],
    read: readEventsByHandle
  },
  { endpoint: 'view', method: 'POST', path: ['v1', 'view'], read: readView },
  {
    endpoint: 'events_by_creation_number',
    method: 'GET',
    path: ['v1', 'accounts', ':', 'events', ':'],
    read: readEventsByNumber
  },
  {
    endpoint: 'account_transactions',
    method: 'GET',
    path: ['v1', 'accounts', ':', 'transactions'],
    read: readAccountTransactions
  },
  { endpoint: 'transactions', method: 'GET', path: ['v1', 'transactions'], read: readTransactions },
  {
    endpoint: 'transaction_by_version',
    method: 'GET',
    path: ['v1', 'transactions', 'by_version', ':'],
    read: readTransactionByVersion
  },
  {
    endpoint: 'transaction_by_hash',
    method: 'GET',
    path: ['v1', 'transactions', 'by_hash', ':'],
    read: readTransactionByHash
  },
  {
    endpoint: 'transaction_wait_by_hash',
    method: 'GET',
    path: ['v1', 'transactions', 'wait_by_hash', ':'],
    read: readTransactionByHash
  },
  {
    endpoint: 'block_by_version',
    method: 'GET',
    path: ['v1', 'blocks', 'by_version', ':'],
    read: readBlockByVersion
  },
  { endpoint: 'block_by_height', method: 'GET', path: ['v1', 'blocks', 'by_height', ':'], read: readBlockByHeight },
  { endpoint: 'estimate_gas_price', method: 'GET', path: ['v1', 'estimate_gas_price'], read: readGasPrice },
  { endpoint: 'info', method: 'GET', path: ['v1', 'info'], read: readInfo },
  { endpoint: 'healthy', method: 'GET', path: ['v1', '-', 'healthy'], read: readHealth },
  { endpoint: 'spec', method: 'GET', path: ['v1', 'spec'], read: readSpec },
  { endpoint: 'spec', method: 'GET', path: ['v1', 'spec.json'], read: readSpec },
  { endpoint: 'index', method: 'GET', path: ['v1'], read: readIndex },
  { endpoint: 'index', method: 'GET', path: ['v1', ''], read: readIndex },
  { endpoint: 'submit_transaction', method: 'POST', path: ['v1', 'transactions'], read: submitTransaction },
  {
    endpoint: 'simulate_transaction',
    method: 'POST',
    path: ['v1', 'transactions', 'simulate'],
    read: simulateTransaction
  },
  {
    endpoint: 'encode_submission',
    method: 'POST',
    path: ['v1', 'transactions', 'encode_submission'],
    read: encodeSubmission
  }
] as const satisfies readonly Route[]

/** Endpoint of a request; `other` for an unknown path. */
export type EndpointName = typeof routes[number]['endpoint'] | 'other'

/** Returns the route of a path, that of the method if it has one; compares segments without decoding them. */
export function routeOf (segments: readonly string[], method: string): typeof routes[number] | undefined {
  const ofPath = routes.filter(({ path }) =>
    path.length === segments.length &&
    path.every((part, index) => part === ':' || part === segments[index])
  )
  return ofPath.find(route => route.method === (method === 'HEAD' ? 'GET' : method)) ?? ofPath[0]
}

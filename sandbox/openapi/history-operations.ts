import { z } from 'zod'
import { block } from '../schema/block.js'
import { versionedEvent } from '../schema/event.js'
import { committedTransaction, transaction } from '../schema/transaction.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation-definition.js'

const errorsOfReads = [400, 403, 404, 410, 500, 503] as const
const pageSizeText = 'The default page size is 25, the maximum is 100.'

const blockSchemas = { 'application/json': block, 'application/x-bcs': bcsBody }
const eventListSchemas = { 'application/json': z.array(versionedEvent), 'application/x-bcs': bcsBody }
const transactionListSchemas = { 'application/json': z.array(committedTransaction), 'application/x-bcs': bcsBody }
const committedTransactionSchemas = { 'application/json': committedTransaction, 'application/x-bcs': bcsBody }
const transactionSchemas = { 'application/json': transaction, 'application/x-bcs': bcsBody }

/** Operations of the routes that read history. */
export const historyOperations = {
  'GET /v1/accounts/:/events/:/:': {
    tag: 'events',
    summary: 'The events of an event handle',
    description: `In ascending order from \`start\` on; without \`start\`, the newest events. ${pageSizeText} ` +
      'A handle without events gets an empty list.',
    parameterKeys: ['address', 'event_handle', 'field_name', 'start_sequence', 'limit'],
    responseSchemas: eventListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/events/:': {
    tag: 'events',
    summary: 'The events of a stream, by its creation number',
    description: 'The same events, selected by the creation number of the stream, even if its event handle ' +
      'no longer exists.',
    parameterKeys: ['address', 'creation_number', 'start_sequence', 'limit'],
    responseSchemas: eventListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/blocks/by_version/:': {
    tag: 'blocks',
    summary: 'The block that contains a version',
    description: 'Any version inside the block selects it. A block has at most 10,000 transactions in the ' +
      'response; only its version range shows that more exist.',
    parameterKeys: ['version', 'with_transactions'],
    responseSchemas: blockSchemas,
    errors: errorsOfReads
  },
  'GET /v1/blocks/by_height/:': {
    tag: 'blocks',
    summary: 'The block at a height',
    description: 'Transactions are limited as in a read by version.',
    parameterKeys: ['block_height', 'with_transactions'],
    responseSchemas: blockSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions': {
    tag: 'transactions',
    summary: 'A list of transactions',
    description: `In ascending order from \`start\` on; without \`start\`, the newest transactions. ${pageSizeText}`,
    parameterKeys: ['start_version', 'limit'],
    responseSchemas: transactionListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/by_version/:': {
    tag: 'transactions',
    summary: 'The transaction at a version',
    description: 'Each ledger version is the result of one transaction.',
    parameterKeys: ['txn_version'],
    responseSchemas: committedTransactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash',
    description: 'A transaction that is not committed yet is a `pending_transaction`. A pruned transaction ' +
      'gets the same 404 as an unknown hash.',
    parameterKeys: ['txn_hash'],
    responseSchemas: transactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/wait_by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash, after a wait for its commit',
    description: 'Waits up to one second for a pending transaction.',
    parameterKeys: ['txn_hash'],
    responseSchemas: transactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/transactions': {
    tag: 'transactions',
    summary: 'The transactions that an account has sent',
    description: 'In ascending order of sequence numbers from `start` on; without `start`, the newest transactions. ' +
      pageSizeText,
    parameterKeys: ['address', 'start_sequence', 'limit'],
    responseSchemas: transactionListSchemas,
    errors: errorsOfReads
  }
} as const satisfies Record<string, Operation>

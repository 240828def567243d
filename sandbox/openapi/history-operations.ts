import { z } from 'zod'
import { block } from '../schema/block.js'
import { versionedEvent } from '../schema/event.js'
import { committedTransaction, transaction } from '../schema/transaction.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation.js'

const errorsOfReads = [400, 403, 404, 410, 500, 503] as const
const pageSizeText = 'A page has 25 unless a limit is given, and 100 at most.'

const blockSchemas = { 'application/json': block, 'application/x-bcs': bcsBody }
const eventListSchemas = { 'application/json': z.array(versionedEvent), 'application/x-bcs': bcsBody }
const transactionListSchemas = { 'application/json': z.array(committedTransaction), 'application/x-bcs': bcsBody }
const committedTransactionSchemas = { 'application/json': committedTransaction, 'application/x-bcs': bcsBody }
const transactionSchemas = { 'application/json': transaction, 'application/x-bcs': bcsBody }

/** Operations of the routes that read history. */
export const historyOperations = {
  'GET /v1/accounts/:/events/:/:': {
    tag: 'events',
    summary: 'The events of a handle',
    description:
      `In ascending order: from \`start\` on, or the newest where it is left out. ${pageSizeText} Where there are ` +
      'none, the list is empty.',
    parameterKeys: ['address', 'event_handle', 'field_name', 'start_sequence', 'limit'],
    responseSchemas: eventListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/events/:': {
    tag: 'events',
    summary: 'The events of a stream',
    description:
      'The same by the number that the account gave the stream when it made it, whatever has become of the handle.',
    parameterKeys: ['address', 'creation_number', 'start_sequence', 'limit'],
    responseSchemas: eventListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/blocks/by_version/:': {
    tag: 'blocks',
    summary: 'The block that holds a version',
    description: 'Any version inside the block names it. With transactions it has as many as the node gives at most, ' +
      '10,000; whether some are missing shows in its range alone.',
    parameterKeys: ['version', 'with_transactions'],
    responseSchemas: blockSchemas,
    errors: errorsOfReads
  },
  'GET /v1/blocks/by_height/:': {
    tag: 'blocks',
    summary: 'The block of a height',
    description: 'With transactions as by version.',
    parameterKeys: ['block_height', 'with_transactions'],
    responseSchemas: blockSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions': {
    tag: 'transactions',
    summary: 'Transactions one after the other',
    description: `In ascending order: from \`start\` on, or the newest where it is left out. ${pageSizeText}`,
    parameterKeys: ['start_version', 'limit'],
    responseSchemas: transactionListSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/by_version/:': {
    tag: 'transactions',
    summary: 'The transaction that made a version',
    description: 'Every version was made by one.',
    parameterKeys: ['txn_version'],
    responseSchemas: committedTransactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash',
    description:
      'One that waits is `pending_transaction` at first. One that is pruned cannot be told from one that never was.',
    parameterKeys: ['txn_hash'],
    responseSchemas: transactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/transactions/wait_by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash, once it is there',
    description: 'Waits a second at most.',
    parameterKeys: ['txn_hash'],
    responseSchemas: transactionSchemas,
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/transactions': {
    tag: 'transactions',
    summary: 'The transactions that an account has sent',
    description: 'In ascending order of their sequence numbers: from `start` on, or the newest where it is left out. ' +
      pageSizeText,
    parameterKeys: ['address', 'start_sequence', 'limit'],
    responseSchemas: transactionListSchemas,
    errors: errorsOfReads
  }
} as const satisfies Record<string, Operation>

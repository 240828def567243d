import { z } from 'zod'
import { block } from '../schema/block.js'
import { versionedEvent } from '../schema/event.js'
import { committedTransaction, transaction } from '../schema/transaction.js'
import { bytes } from './bytes.js'
import { type Operation } from './operation.js'

const usual = [400, 403, 404, 410, 500, 503] as const
const aPage = 'A page has 25 unless a limit is given, and 100 at most.'

const blockAnswers = { 'application/json': block, 'application/x-bcs': bytes }
const eventsAnswers = { 'application/json': z.array(versionedEvent), 'application/x-bcs': bytes }
const listAnswers = { 'application/json': z.array(committedTransaction), 'application/x-bcs': bytes }
const committedAnswers = { 'application/json': committedTransaction, 'application/x-bcs': bytes }
const anyAnswers = { 'application/json': transaction, 'application/x-bcs': bytes }

/** What the routes that read what has happened say. */
export const historyOperations = {
  'GET /v1/accounts/:/events/:/:': {
    tag: 'events',
    summary: 'The events of a handle',
    description:
      `In ascending order: from \`start\` on, or the newest where it is left out. ${aPage} Where there are ` +
      'none, the list is empty.',
    takes: ['address', 'event_handle', 'field_name', 'start_sequence', 'limit'],
    answers: eventsAnswers,
    errors: usual
  },
  'GET /v1/accounts/:/events/:': {
    tag: 'events',
    summary: 'The events of a stream',
    description:
      'The same by the number that the account gave the stream when it made it, whatever has become of the handle.',
    takes: ['address', 'creation_number', 'start_sequence', 'limit'],
    answers: eventsAnswers,
    errors: usual
  },
  'GET /v1/blocks/by_version/:': {
    tag: 'blocks',
    summary: 'The block that holds a version',
    description: 'Any version inside the block names it. With transactions it has as many as the node gives at most, ' +
      '10,000; whether some are missing shows in its range alone.',
    takes: ['version', 'with_transactions'],
    answers: blockAnswers,
    errors: usual
  },
  'GET /v1/blocks/by_height/:': {
    tag: 'blocks',
    summary: 'The block of a height',
    description: 'With transactions as by version.',
    takes: ['block_height', 'with_transactions'],
    answers: blockAnswers,
    errors: usual
  },
  'GET /v1/transactions': {
    tag: 'transactions',
    summary: 'Transactions one after the other',
    description: `In ascending order: from \`start\` on, or the newest where it is left out. ${aPage}`,
    takes: ['start_version', 'limit'],
    answers: listAnswers,
    errors: usual
  },
  'GET /v1/transactions/by_version/:': {
    tag: 'transactions',
    summary: 'The transaction that made a version',
    description: 'Every version was made by one.',
    takes: ['txn_version'],
    answers: committedAnswers,
    errors: usual
  },
  'GET /v1/transactions/by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash',
    description:
      'One that waits is `pending_transaction` at first. One that is pruned cannot be told from one that never was.',
    takes: ['txn_hash'],
    answers: anyAnswers,
    errors: usual
  },
  'GET /v1/transactions/wait_by_hash/:': {
    tag: 'transactions',
    summary: 'A transaction by its hash, once it is there',
    description: 'Waits a second at most.',
    takes: ['txn_hash'],
    answers: anyAnswers,
    errors: usual
  },
  'GET /v1/accounts/:/transactions': {
    tag: 'transactions',
    summary: 'The transactions that an account has sent',
    description:
      `In ascending order of their sequence numbers: from \`start\` on, or the newest where it is left out. ${aPage}`,
    takes: ['address', 'start_sequence', 'limit'],
    answers: listAnswers,
    errors: usual
  }
} as const satisfies Record<string, Operation>

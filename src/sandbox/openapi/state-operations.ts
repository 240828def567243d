import { z } from 'zod'
import { module } from '../schema/module.js'
import { moveValue } from '../schema/scalars.js'
import { tableItemRequest } from '../schema/table.js'
import { bytes } from './bytes.js'
import { type Operation } from './operation.js'

const statusesOfState = [400, 403, 404, 410, 500, 503] as const
const statusesOfPosts = [400, 403, 404, 410, 411, 413, 415, 500, 503] as const

/** What the routes that read the state at a version say. */
export const stateOperations = {
  'POST /v1/tables/:/item': {
    tag: 'tables',
    summary: 'One item of a table',
    description: 'The value in the form of its type, which may be a bare number or string; in BCS its bytes. It is a POST, as keys can be long, and changes nothing.',
    takes: ['table_handle', 'ledger_version'],
    body: { description: 'Which item.', forms: { 'application/json': tableItemRequest } },
    answers: { 'application/json': moveValue, 'application/x-bcs': bytes },
    isStamped: true,
    own: [],
    errors: statusesOfPosts
  },
  'GET /v1/accounts/:/modules': {
    tag: 'accounts',
    summary: 'The modules of an account',
    description: 'In the order of their state keys, a page at a time. Where an account has none, the list is empty. How an ABI is printed depends on the release of the node.',
    takes: ['address', 'ledger_version', 'start_cursor', 'limit'],
    answers: { 'application/json': z.array(module), 'application/x-bcs': bytes },
    isStamped: true,
    own: ['cursor'],
    errors: statusesOfState
  }
} as const satisfies Record<string, Operation>

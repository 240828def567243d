import { z } from 'zod'
import { account, balance } from '../schema/account.js'
import { resource } from '../schema/change.js'
import { module } from '../schema/module.js'
import { rawTableItemRequest, tableItemRequest, viewRequest } from '../schema/request.js'
import { moveValue } from '../schema/scalars.js'
import { bytes } from './bytes.js'
import { type Operation } from './operation.js'

const usual = [400, 403, 404, 410, 500, 503] as const
const ofPosts = [400, 403, 404, 410, 411, 413, 415, 500, 503] as const

/** What the routes that read the state at a version say. */
export const stateOperations = {
  'GET /v1/accounts/:': {
    tag: 'accounts',
    summary: 'An account',
    description:
      'In BCS its resource. Newer nodes answer for an account that was never used too: its sequence number is 0.',
    takes: ['address', 'ledger_version'],
    answers: { 'application/json': account, 'application/x-bcs': bytes },
    errors: usual
  },
  'GET /v1/accounts/:/resources': {
    tag: 'accounts',
    summary: 'The resources of an account',
    description: 'In the order of their state keys, a page at a time.',
    takes: ['address', 'ledger_version', 'start_cursor', 'limit'],
    answers: { 'application/json': z.array(resource), 'application/x-bcs': bytes },
    own: ['cursor'],
    errors: usual
  },
  'GET /v1/accounts/:/resource/:': {
    tag: 'accounts',
    summary: 'One resource of an account',
    description: 'In BCS the bytes of the struct.',
    takes: ['address', 'resource_type', 'ledger_version'],
    answers: { 'application/json': resource, 'application/x-bcs': bytes },
    errors: usual
  },
  'GET /v1/accounts/:/balance/:': {
    tag: 'accounts',
    summary: 'How much of an asset an account has',
    description: 'Of a coin or of a fungible asset, 0 where it has none; in BCS eight bytes.',
    takes: ['address', 'asset_type', 'ledger_version'],
    answers: { 'application/json': balance, 'application/x-bcs': bytes },
    errors: usual
  },
  'GET /v1/accounts/:/modules': {
    tag: 'accounts',
    summary: 'The modules of an account',
    description:
      'In the order of their state keys, a page at a time. Where an account has none, the list is empty. How ' +
      'an ABI is printed depends on the release of the node.',
    takes: ['address', 'ledger_version', 'start_cursor', 'limit'],
    answers: { 'application/json': z.array(module), 'application/x-bcs': bytes },
    own: ['cursor'],
    errors: usual
  },
  'GET /v1/accounts/:/module/:': {
    tag: 'accounts',
    summary: 'One module of an account',
    description: 'As in the listing; in BCS the bytecode.',
    takes: ['address', 'module_name', 'ledger_version'],
    answers: { 'application/json': module, 'application/x-bcs': bytes },
    errors: usual
  },
  'POST /v1/tables/:/item': {
    tag: 'tables',
    summary: 'One item of a table',
    description: 'The value in the form of its type, which may be a bare number or string; in BCS its bytes. It is a ' +
      'POST, as keys can be long, and changes nothing.',
    takes: ['table_handle', 'ledger_version'],
    body: { description: 'Which item.', forms: { 'application/json': tableItemRequest } },
    answers: { 'application/json': moveValue, 'application/x-bcs': bytes },
    errors: ofPosts
  },
  'POST /v1/tables/:/raw_item': {
    tag: 'tables',
    summary: 'One item of a table, by the bytes of its key',
    description: 'The bytes of the value; there is no JSON of it, and who asks for that is answered 403.',
    takes: ['table_handle', 'ledger_version'],
    body: { description: 'Which item.', forms: { 'application/json': rawTableItemRequest } },
    answers: { 'application/x-bcs': bytes },
    errors: ofPosts
  },
  'POST /v1/view': {
    tag: 'view',
    summary: 'What a function that only reads gives',
    description:
      'A list, as functions may give several values. It is a POST, as arguments can be long, and changes nothing.',
    takes: ['ledger_version'],
    body: {
      description: 'Which function, and what it is given.',
      forms: { 'application/json': viewRequest, 'application/x.aptos.view_function+bcs': bytes }
    },
    answers: { 'application/json': z.array(moveValue), 'application/x-bcs': bytes },
    own: ['gas-used'],
    errors: ofPosts
  }
} as const satisfies Record<string, Operation>

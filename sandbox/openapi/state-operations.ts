import { z } from 'zod'
import { account, balance } from '../schema/account.js'
import { resource } from '../schema/change.js'
import { module } from '../schema/module.js'
import { rawTableItemRequest, tableItemRequest, viewRequest } from '../schema/request.js'
import { moveValue } from '../schema/scalars.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation.js'

const errorsOfReads = [400, 403, 404, 410, 500, 503] as const
const errorsOfPosts = [400, 403, 404, 410, 411, 413, 415, 500, 503] as const

/** Operations of the routes that read state at a version. */
export const stateOperations = {
  'GET /v1/accounts/:': {
    tag: 'accounts',
    summary: 'An account',
    description:
      'In BCS its resource. Newer nodes answer for an account that was never used too: its sequence number is 0.',
    parameterKeys: ['address', 'ledger_version'],
    responseSchemas: { 'application/json': account, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/resources': {
    tag: 'accounts',
    summary: 'The resources of an account',
    description: 'In the order of their state keys, a page at a time.',
    parameterKeys: ['address', 'ledger_version', 'start_cursor', 'limit'],
    responseSchemas: { 'application/json': z.array(resource), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['cursor'],
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/resource/:': {
    tag: 'accounts',
    summary: 'One resource of an account',
    description: 'In BCS the bytes of the struct.',
    parameterKeys: ['address', 'resource_type', 'ledger_version'],
    responseSchemas: { 'application/json': resource, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/balance/:': {
    tag: 'accounts',
    summary: 'How much of an asset an account has',
    description: 'Of a coin or of a fungible asset, 0 where it has none; in BCS eight bytes.',
    parameterKeys: ['address', 'asset_type', 'ledger_version'],
    responseSchemas: { 'application/json': balance, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/modules': {
    tag: 'accounts',
    summary: 'The modules of an account',
    description:
      'In the order of their state keys, a page at a time. Where an account has none, the list is empty. How ' +
      'an ABI is printed depends on the release of the node.',
    parameterKeys: ['address', 'ledger_version', 'start_cursor', 'limit'],
    responseSchemas: { 'application/json': z.array(module), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['cursor'],
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/module/:': {
    tag: 'accounts',
    summary: 'One module of an account',
    description: 'As in the listing; in BCS the bytecode.',
    parameterKeys: ['address', 'module_name', 'ledger_version'],
    responseSchemas: { 'application/json': module, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'POST /v1/tables/:/item': {
    tag: 'tables',
    summary: 'One item of a table',
    description: 'The value in the form of its type, which may be a bare number or string; in BCS its bytes. It is a ' +
      'POST, as keys can be long, and changes nothing.',
    parameterKeys: ['table_handle', 'ledger_version'],
    body: { description: 'Which item.', schemas: { 'application/json': tableItemRequest } },
    responseSchemas: { 'application/json': moveValue, 'application/x-bcs': bcsBody },
    errors: errorsOfPosts
  },
  'POST /v1/tables/:/raw_item': {
    tag: 'tables',
    summary: 'One item of a table, by the bytes of its key',
    description: 'The bytes of the value; there is no JSON of it, and who asks for that is answered 403.',
    parameterKeys: ['table_handle', 'ledger_version'],
    body: { description: 'Which item.', schemas: { 'application/json': rawTableItemRequest } },
    responseSchemas: { 'application/x-bcs': bcsBody },
    errors: errorsOfPosts
  },
  'POST /v1/view': {
    tag: 'view',
    summary: 'What a function that only reads gives',
    description:
      'A list, as functions may give several values. It is a POST, as arguments can be long, and changes nothing.',
    parameterKeys: ['ledger_version'],
    body: {
      description: 'Which function, and what it is given.',
      schemas: { 'application/json': viewRequest, 'application/x.aptos.view_function+bcs': bcsBody }
    },
    responseSchemas: { 'application/json': z.array(moveValue), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['gas-used'],
    errors: errorsOfPosts
  }
} as const satisfies Record<string, Operation>

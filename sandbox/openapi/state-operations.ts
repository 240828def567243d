import { z } from 'zod'
import { account, balance } from '../schema/account.js'
import { resource } from '../schema/change.js'
import { module } from '../schema/module.js'
import { entryFunctionId, hexBytes, moveValue, typeTag } from '../schema/scalars.js'
import { bcsBody } from './bcs-body.js'
import { type Operation } from './operation-definition.js'

/** Schema of a table item request; nodes ignore unknown members. */
const tableItemRequest = z.looseObject({ key_type: typeTag, value_type: typeTag, key: moveValue }).meta({
  id: 'TableItemRequest',
  description: 'The key of a table item, and the types of key and value.',
  examples: [{ key_type: 'u64', value_type: '0x42::shop::Item', key: '7' }]
})

/** Schema of a raw table item request, whose key is BCS; nodes ignore unknown members. */
const rawTableItemRequest = z.looseObject({ key: hexBytes }).meta({
  id: 'RawTableItemRequest',
  description: 'The key of a table item in BCS.',
  examples: [{ key: '0x0700000000000000' }]
})

/** Schema of a JSON view request; nodes ignore unknown members. */
const viewRequest = z.looseObject({
  function: entryFunctionId,
  type_arguments: z.array(typeTag),
  arguments: z.array(moveValue)
}).meta({
  id: 'ViewRequest',
  description: 'A view function with its type arguments and arguments.',
  examples: [{ function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] }]
})

const errorsOfReads = [400, 403, 404, 410, 500, 503] as const
const errorsOfPosts = [400, 403, 404, 410, 411, 413, 415, 500, 503] as const

/** Operations of the routes that read state at a version. */
export const stateOperations = {
  'GET /v1/accounts/:': {
    tag: 'accounts',
    summary: 'An account',
    description: 'BCS contains the account resource. Newer nodes also respond for an account that was never ' +
      'used, with sequence number 0.',
    parameterKeys: ['address', 'ledger_version'],
    responseSchemas: { 'application/json': account, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/resources': {
    tag: 'accounts',
    summary: 'The resources of an account',
    description: 'One page, in the order of state keys.',
    parameterKeys: ['address', 'ledger_version', 'start_cursor', 'limit'],
    responseSchemas: { 'application/json': z.array(resource), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['cursor'],
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/resource/:': {
    tag: 'accounts',
    summary: 'One resource of an account',
    description: 'BCS contains the bytes of the struct.',
    parameterKeys: ['address', 'resource_type', 'ledger_version'],
    responseSchemas: { 'application/json': resource, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/balance/:': {
    tag: 'accounts',
    summary: 'The balance of an account',
    description: 'The amount of a coin or a fungible asset, 0 if the account has none. BCS contains eight ' +
      'bytes.',
    parameterKeys: ['address', 'asset_type', 'ledger_version'],
    responseSchemas: { 'application/json': balance, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/modules': {
    tag: 'accounts',
    summary: 'The modules of an account',
    description: 'One page, in the order of state keys; an empty list for an account without modules. The ' +
      'form of an ABI depends on the release of the node.',
    parameterKeys: ['address', 'ledger_version', 'start_cursor', 'limit'],
    responseSchemas: { 'application/json': z.array(module), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['cursor'],
    errors: errorsOfReads
  },
  'GET /v1/accounts/:/module/:': {
    tag: 'accounts',
    summary: 'One module of an account',
    description: 'The same form as in the list of modules. BCS contains the bytecode.',
    parameterKeys: ['address', 'module_name', 'ledger_version'],
    responseSchemas: { 'application/json': module, 'application/x-bcs': bcsBody },
    errors: errorsOfReads
  },
  'POST /v1/tables/:/item': {
    tag: 'tables',
    summary: 'One item of a table',
    description: 'The value in the JSON form of its type, which may be a bare number or string. BCS contains ' +
      'its bytes. The method is POST because keys can be long; the request changes nothing.',
    parameterKeys: ['table_handle', 'ledger_version'],
    body: {
      description: 'The key of the item, and the types of key and value.',
      schemas: { 'application/json': tableItemRequest }
    },
    responseSchemas: { 'application/json': moveValue, 'application/x-bcs': bcsBody },
    errors: errorsOfPosts
  },
  'POST /v1/tables/:/raw_item': {
    tag: 'tables',
    summary: 'One item of a table, by the bytes of its key',
    description: 'The bytes of the value. A request for JSON gets a 403, because the value has no JSON form.',
    parameterKeys: ['table_handle', 'ledger_version'],
    body: { description: 'The key of the item in BCS.', schemas: { 'application/json': rawTableItemRequest } },
    responseSchemas: { 'application/x-bcs': bcsBody },
    errors: errorsOfPosts
  },
  'POST /v1/view': {
    tag: 'view',
    summary: 'The results of a view function',
    description: 'A list, because functions can return several values. The method is POST because arguments ' +
      'can be long; the request changes nothing.',
    parameterKeys: ['ledger_version'],
    body: {
      description: 'The function and its arguments.',
      schemas: { 'application/json': viewRequest, 'application/x.aptos.view_function+bcs': bcsBody }
    },
    responseSchemas: { 'application/json': z.array(moveValue), 'application/x-bcs': bcsBody },
    perResponseHeaders: ['gas-used'],
    errors: errorsOfPosts
  }
} as const satisfies Record<string, Operation>

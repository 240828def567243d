import { z } from 'zod'

/** Error codes of nodes; clients fail to parse any other code. */
export const errorCode = z.enum([
  'account_not_found',
  'resource_not_found',
  'module_not_found',
  'struct_field_not_found',
  'version_not_found',
  'transaction_not_found',
  'table_item_not_found',
  'block_not_found',
  'state_value_not_found',
  'version_pruned',
  'block_pruned',
  'invalid_input',
  'invalid_transaction_update',
  'sequence_number_too_old',
  'vm_error',
  'bcs_not_supported',
  'web_framework_error',
  'api_disabled',
  'rejected_by_filter',
  'health_check_failed',
  'node_not_bootstrapped',
  'internal_error',
  'rate_limited',
  'mempool_is_full'
]).meta({ id: 'ErrorCode', description: 'The machine-readable code of an error.' })

/** Schema of every error body, see docs/node-behaviour.md, "Errors". */
export const errorBody = z.strictObject({
  message: z.string(),
  error_code: errorCode,
  vm_error_code: z.int().min(0).nullable()
}).meta({
  id: 'Error',
  description: 'An error: a message, an error code, and the status code of the virtual machine if it raised the error.'
})

/** Error code as JSON prints it. */
export type ErrorCode = z.infer<typeof errorCode>
export type ErrorBody = z.infer<typeof errorBody>

import { z } from 'zod'
import { entryFunctionId, hexBytes, moveValue, typeTag } from './scalars.js'

/** Schema of a table item request; nodes ignore unknown members. */
export const tableItemRequest = z.looseObject({ key_type: typeTag, value_type: typeTag, key: moveValue }).meta({
  id: 'TableItemRequest',
  description: 'The key of a table item, and the types of key and value.',
  examples: [{ key_type: 'u64', value_type: '0x42::shop::Item', key: '7' }]
})

/** Schema of a raw table item request, whose key is BCS; nodes ignore unknown members. */
export const rawTableItemRequest = z.looseObject({ key: hexBytes }).meta({
  id: 'RawTableItemRequest',
  description: 'The key of a table item in BCS.',
  examples: [{ key: '0x0700000000000000' }]
})

/** Schema of a JSON view request; nodes ignore unknown members. */
export const viewRequest = z.looseObject({
  function: entryFunctionId,
  type_arguments: z.array(typeTag),
  arguments: z.array(moveValue)
}).meta({
  id: 'ViewRequest',
  description: 'A view function with its type arguments and arguments.',
  examples: [{ function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] }]
})

import { z } from 'zod'
import { moveValue, typeTag } from './scalars.js'

/** The body of a lookup of an item; more members are ignored. */
export const tableItemRequest = z.looseObject({
  key_type: typeTag,
  value_type: typeTag,
  key: moveValue
}).meta({ id: 'TableItemRequest', description: 'Which item: its key, and the types of key and value.', examples: [{ key_type: 'u64', value_type: '0x42::shop::Item', key: '7' }] })

import { z } from 'zod'
import { module } from './module.js'
import { address, hash, hexBytes, moduleId, moveValue, structTag, tableHandle, typeTag } from './scalars.js'

/** Schema of a resource, whose fields depend on its type. */
export const resource = z.strictObject({ type: structTag, data: z.record(z.string(), moveValue) }).meta({
  id: 'Resource',
  description: 'A resource: its type, and its fields by name.'
})

const accountChangeShape = { address, state_key_hash: hash }

const tableChangeShape = { state_key_hash: hash, handle: tableHandle, key: hexBytes }

/** Schema of a write set change: the state after a transaction, never the state before. */
export const change = z.discriminatedUnion('type', [
  z.strictObject({ ...accountChangeShape, data: resource, type: z.literal('write_resource') }).meta({
    id: 'WriteResource',
    description: 'A resource as the transaction left it.'
  }),
  z.strictObject({ ...accountChangeShape, data: module, type: z.literal('write_module') }).meta({
    id: 'WriteModule',
    description: 'A module as the transaction left it.'
  }),
  z.strictObject({
    ...tableChangeShape,
    value: hexBytes,
    data: z.strictObject({ key: moveValue, key_type: typeTag, value: moveValue, value_type: typeTag }).nullable(),
    type: z.literal('write_table_item')
  }).meta({
    id: 'WriteTableItem',
    description: 'An item of a table in bytes; nodes that know the types of the table tell `data` too.'
  }),
  z.strictObject({ ...accountChangeShape, resource: structTag, type: z.literal('delete_resource') }).meta({
    id: 'DeleteResource',
    description: 'A resource that is there no more.'
  }),
  z.strictObject({ ...accountChangeShape, module: moduleId, type: z.literal('delete_module') }).meta({
    id: 'DeleteModule',
    description: 'A module that is there no more.'
  }),
  z.strictObject({
    ...tableChangeShape,
    data: z.strictObject({ key: moveValue, key_type: typeTag }).nullable(),
    type: z.literal('delete_table_item')
  }).meta({ id: 'DeleteTableItem', description: 'An item of a table that is there no more.' })
]).meta({ id: 'Change', description: 'What a transaction has left of one thing, not what it was before.' })

/** Resource as JSON prints it. */
export type ResourceRecord = z.infer<typeof resource>

/** Write set change as JSON prints it. */
export type WriteSetChange = z.infer<typeof change>

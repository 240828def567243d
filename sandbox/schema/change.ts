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
    description: 'A resource after the transaction.'
  }),
  z.strictObject({ ...accountChangeShape, data: module, type: z.literal('write_module') }).meta({
    id: 'WriteModule',
    description: 'A module after the transaction.'
  }),
  z.strictObject({
    ...tableChangeShape,
    value: hexBytes,
    data: z.strictObject({ key: moveValue, key_type: typeTag, value: moveValue, value_type: typeTag }).nullable(),
    type: z.literal('write_table_item')
  }).meta({
    id: 'WriteTableItem',
    description: 'A table item in bytes; nodes that know the types of the table add `data`.'
  }),
  z.strictObject({ ...accountChangeShape, resource: structTag, type: z.literal('delete_resource') }).meta({
    id: 'DeleteResource',
    description: 'A resource that the transaction deleted.'
  }),
  z.strictObject({ ...accountChangeShape, module: moduleId, type: z.literal('delete_module') }).meta({
    id: 'DeleteModule',
    description: 'A module that the transaction deleted.'
  }),
  z.strictObject({
    ...tableChangeShape,
    data: z.strictObject({ key: moveValue, key_type: typeTag }).nullable(),
    type: z.literal('delete_table_item')
  }).meta({ id: 'DeleteTableItem', description: 'A table item that the transaction deleted.' })
]).meta({ id: 'Change', description: 'A state change: the state after the transaction, never the state before.' })

/** Resource as JSON prints it. */
export type ResourceRecord = z.infer<typeof resource>

/** Write set change as JSON prints it. */
export type WriteSetChange = z.infer<typeof change>

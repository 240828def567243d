import { z } from 'zod'
import { module } from './module.js'
import { address, hash, hexBytes, moduleId, moveValue, structTag, tableHandle, typeTag } from './scalars.js'

/** A resource of an account. */
export const resource = z.strictObject({ type: structTag, data: z.record(z.string(), moveValue) }).meta({
  id: 'Resource',
  description: 'A resource: its type, and its fields by name.'
})

const ofAccount = { address, state_key_hash: hash }

const ofTable = { state_key_hash: hash, handle: tableHandle, key: hexBytes }

/** What a transaction has left of one thing. */
export const change = z.discriminatedUnion('type', [
  z.strictObject({ ...ofAccount, data: resource, type: z.literal('write_resource') }).meta({
    id: 'WriteResource',
    description: 'A resource as the transaction left it.'
  }),
  z.strictObject({ ...ofAccount, data: module, type: z.literal('write_module') }).meta({
    id: 'WriteModule',
    description: 'A module as the transaction left it.'
  }),
  z.strictObject({
    ...ofTable,
    value: hexBytes,
    data: z.strictObject({ key: moveValue, key_type: typeTag, value: moveValue, value_type: typeTag }).nullable(),
    type: z.literal('write_table_item')
  }).meta({
    id: 'WriteTableItem',
    description: 'An item of a table in bytes; nodes that know the types of the table tell `data` too.'
  }),
  z.strictObject({ ...ofAccount, resource: structTag, type: z.literal('delete_resource') }).meta({
    id: 'DeleteResource',
    description: 'A resource that is there no more.'
  }),
  z.strictObject({ ...ofAccount, module: moduleId, type: z.literal('delete_module') }).meta({
    id: 'DeleteModule',
    description: 'A module that is there no more.'
  }),
  z.strictObject({
    ...ofTable,
    data: z.strictObject({ key: moveValue, key_type: typeTag }).nullable(),
    type: z.literal('delete_table_item')
  }).meta({ id: 'DeleteTableItem', description: 'An item of a table that is there no more.' })
]).meta({ id: 'Change', description: 'What a transaction has left of one thing, not what it was before.' })

/** A resource of an account. */
export type ResourceRecord = z.infer<typeof resource>

/** What a transaction has left of one thing. */
export type Change = z.infer<typeof change>

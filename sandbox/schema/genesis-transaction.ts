import { z } from 'zod'
import { change } from './change.js'
import { event } from './event.js'
import { script } from './payload.js'
import { address } from './scalars.js'
import { committedShape } from './committed.js'

const writeSet = z.discriminatedUnion('type', [
  z.strictObject({ changes: z.array(change), events: z.array(event), type: z.literal('direct_write_set') }).meta({
    id: 'DirectWriteSet',
    description: 'A write set that lists its changes one by one.'
  }),
  z.strictObject({ execute_as: address, script, type: z.literal('script_write_set') }).meta({
    id: 'ScriptWriteSet',
    description: 'A script that is executed as an account.'
  })
]).meta({ id: 'WriteSet', description: 'A write set that is applied without a user transaction.' })

/** Schema of genesis and of later administrative write sets; neither has a sender. */
export const genesisTransaction = z.strictObject({
  ...committedShape,
  payload: z.strictObject({ write_set: writeSet, type: z.literal('write_set_payload') }),
  events: z.array(event),
  type: z.literal('genesis_transaction')
}).meta({
  id: 'GenesisTransaction',
  description: 'The genesis transaction, or a later administrative write set; it has no timestamp.'
})

/** Genesis or administrative write set as JSON prints it. */
export type GenesisTransaction = z.infer<typeof genesisTransaction>

/** Write set that is applied without a sender's transaction. */
export type WriteSet = z.infer<typeof writeSet>

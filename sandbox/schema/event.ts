import { z } from 'zod'
import { address, moveValue, structTag, u64String } from './scalars.js'

const guid = z.strictObject({ creation_number: u64String, account_address: address }).meta({
  id: 'EventGuid',
  description: 'The stream of an event; module events belong to no stream and have 0 and 0x0.'
})

/** Schema of an event inside a transaction. */
export const event = z.strictObject({ guid, sequence_number: u64String, type: structTag, data: moveValue }).meta({
  id: 'Event',
  description: 'An event inside the transaction that emitted it.'
})

/** Schema of an event in a listing, which adds the version. */
export const versionedEvent = z.strictObject({ version: u64String, ...event.shape }).meta({
  id: 'VersionedEvent',
  description: 'An event with the version of the transaction that emitted it.'
})

/** Event inside a transaction as JSON prints it. */
export type EventRecord = z.infer<typeof event>

/** Event of a listing as JSON prints it. */
export type VersionedEventRecord = z.infer<typeof versionedEvent>

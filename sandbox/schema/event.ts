import { z } from 'zod'
import { address, moveValue, structTag, u64String } from './scalars.js'

const guid = z.strictObject({ creation_number: u64String, account_address: address }).meta({
  id: 'EventGuid',
  description: 'Which stream an event is of; a module\'s own events are of none, and have 0 and 0x0.'
})

/** An event inside a transaction. */
export const event = z.strictObject({ guid, sequence_number: u64String, type: structTag, data: moveValue }).meta({
  id: 'Event',
  description: 'An event as the transaction that emitted it tells it.'
})

/** An event of a listing. */
export const versionedEvent = z.strictObject({ version: u64String, ...event.shape }).meta({
  id: 'VersionedEvent',
  description: 'An event with the version of the transaction that emitted it.'
})

/** An event inside a transaction. */
export type EventRecord = z.infer<typeof event>

/** An event of a listing. */
export type VersionedEventRecord = z.infer<typeof versionedEvent>

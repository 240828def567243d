import { addressOf } from '../address.js'
import { bookingOf, isTurn } from '../bookings.js'
import { depositor } from '../deposits.js'
import { type Change } from '../schema/change.js'
import { type EventRecord } from '../schema/event.js'
import { bookingChange, busyItem, moduleChange, namedItem, resourceChange, tagOf } from './changes.js'
import { moduleEvent } from './module-events.js'
import { call, move, otherTasks, type Task, unreadable } from './payloads.js'
import { isFree, placeOf } from './plan.js'
import { otherSignings, type Signing } from './signatures.js'
import { ownBytes, type Slot } from './slot.js'

/** What one kind of user transaction is like. */
export interface UserKind {
  readonly task: Task
  /** How it is signed where not by one key of its sender. */
  readonly signing?: Signing
  readonly changes: (slot: Slot) => Change[]
  readonly events: (slot: Slot) => EventRecord[]
  /** How the virtual machine tells that it failed. */
  readonly failure?: string
  /** It is told from others by a number of its own, and not by how many its sender has sent. */
  readonly hasNonce?: boolean
}

const game = addressOf('42')
const turnTag = tagOf('game', 'Turn', [], '42')

const usual: UserKind = { task: move, changes: slot => busyItem(slot), events: () => [] }

const booking: Task = () => call('0x42::shop::book', [], ['1'])

const failures = [
  'Move abort in 0x42::game: ENOT_OWNER(0x50003): Only the owner may move a piece',
  'Out of gas',
  'Execution failed in 0x42::game::move_to at code offset 7',
  'EXECUTION_LIMIT_REACHED'
]

const differences: ReadonlyArray<Partial<UserKind>> = [
  ...otherSignings.map(signing => ({ signing })),
  ...otherTasks.map(task => ({ task })),
  // A payload that could not be read was not carried out.
  { task: unreadable, failure: 'Execution failed with miscellaneous error and no status code' },
  ...failures.map(failure => ({ failure })),
  { hasNonce: true },
  { changes: namedItem },
  { task: publish, changes: slot => [moduleChange(slot, depositor, 'menu')] },
  { task: publish, changes: slot => ['game', 'shop'].map(name => moduleChange(slot, game, name)) },
  // No listing ever has the one that is deleted.
  { changes: slot => [...busyItem(slot), moduleChange(slot, depositor, 'seasonal')] },
  {
    events: (
      { version }
    ) => [moduleEvent('0x42::game::Moved', { by: '0xcafe', to: { x: String(version % 8n), y: '3' } })]
  },
  {
    events:
      () => [moduleEvent('0x42::shop::Sold<0x42::shop::Item>', { price: '340282366920938463463374607431768211455' })]
  }
]

const others = differences.map((difference): UserKind => ({ ...usual, ...difference }))

/** What kind of transaction somebody has sent. */
export function userKindOf (slot: Slot): UserKind {
  if (!isFree(slot.block, slot.version)) return usual
  const booked = bookingOf(slot.ledger, slot.version)
  if (booked !== undefined) return { ...usual, task: booking, changes: () => bookingChange(slot, booked) }
  if (isTurn(slot.ledger, slot.version)) return { ...usual, changes: () => [resourceChange(slot, game, turnTag)] }
  // Between two of them is one of the usual kind, and so is what is left of the cycle.
  const place = placeOf(slot.ledger, slot.version)
  return others[place / 2] ?? usual
}

function publish (slot: Slot) {
  return call('0x1::code::publish_package_txn', [], [ownBytes(slot, 'metadata', 40), [ownBytes(slot, 'code', 60)]])
}

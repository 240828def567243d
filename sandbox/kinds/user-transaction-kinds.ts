import { addressOf } from '../address.js'
import { tableChangeOf, changesTurnResource } from '../short-lived-state.js'
import { depositAccount } from '../deposit-events.js'
import { type WriteSetChange } from '../schema/change.js'
import { type EventRecord } from '../schema/event.js'
import {
  bookingChange,
  busyItemChange,
  moduleChange,
  namedItemChange,
  resourceChange,
  tagOf
} from './write-set-changes.js'
import { moduleEvent } from './module-events.js'
import {
  makeCallPayload,
  makeMovePayload,
  otherPayloadMakers,
  type PayloadMaker,
  makeUndecryptedPayload
} from './payloads.js'
import { mayBeAnyKind, offsetInCycle } from './kind-schedule.js'
import { otherSignatureMakers, type SignatureMaker } from './signatures.js'
import { generateHex, type TransactionLocation } from './transaction-location.js'

/** Parts in which one kind of user transaction differs from another. */
export interface UserTransactionKind {
  readonly makePayload: PayloadMaker
  /** Undefined means signed by the sender's single Ed25519 key. */
  readonly makeSignature?: SignatureMaker
  readonly changes: (location: TransactionLocation) => WriteSetChange[]
  readonly events: (location: TransactionLocation) => EventRecord[]
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure?: string
  /** Replay protection by nonce instead of sequence number. */
  readonly hasNonce?: boolean
}

const gameAddress = addressOf('42')
const turnTag = tagOf('game', 'Turn', [], '42')

const usualKind: UserTransactionKind = {
  makePayload: makeMovePayload,
  changes: location => busyItemChange(location),
  events: () => []
}

const makeBookingPayload: PayloadMaker = () => makeCallPayload('0x42::shop::book', [], ['1'])

const failures = [
  'Move abort in 0x42::game: ENOT_OWNER(0x50003): Only the owner may move a piece',
  'Out of gas',
  'Execution failed in 0x42::game::move_to at code offset 7',
  'EXECUTION_LIMIT_REACHED'
]

const differences: ReadonlyArray<Partial<UserTransactionKind>> = [
  ...otherSignatureMakers.map(makeSignature => ({ makeSignature })),
  ...otherPayloadMakers.map(makePayload => ({ makePayload })),
  // Validators commit a transaction with an undecryptable payload, but do not execute it.
  { makePayload: makeUndecryptedPayload, failure: 'Execution failed with miscellaneous error and no status code' },
  ...failures.map(failure => ({ failure })),
  { hasNonce: true },
  { changes: namedItemChange },
  { makePayload: makePublishPayload, changes: location => [moduleChange(location, depositAccount, 'menu')] },
  {
    makePayload: makePublishPayload,
    changes: location => ['game', 'shop'].map(name => moduleChange(location, gameAddress, name))
  },
  // Deletes a module that no listing contains, so listings stay the same.
  { changes: location => [...busyItemChange(location), moduleChange(location, depositAccount, 'seasonal')] },
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

const otherKinds = differences.map((difference): UserTransactionKind => ({ ...usualKind, ...difference }))

/** Returns the kind of the user transaction at a location. */
export function userTransactionKindOf (location: TransactionLocation): UserTransactionKind {
  if (!mayBeAnyKind(location.block, location.version)) return usualKind
  const tableBooking = tableChangeOf(location.ledger, location.version)
  if (tableBooking !== undefined) {
    return {
      ...usualKind,
      makePayload: makeBookingPayload,
      changes: () => bookingChange(location, tableBooking)
    }
  }
  if (changesTurnResource(location.ledger, location.version)) {
    return { ...usualKind, changes: () => [resourceChange(location, gameAddress, turnTag)] }
  }
  // Odd places of the cycle, and places beyond the list, have the usual kind.
  const place = offsetInCycle(location.ledger, location.version)
  return otherKinds[place / 2] ?? usualKind
}

function makePublishPayload (location: TransactionLocation) {
  return makeCallPayload('0x1::code::publish_package_txn', [], [generateHex(location, 'metadata', 40), [
    generateHex(location, 'code', 60)
  ]])
}

import { addressOf } from './address.js'
import { cycle, isFree, placeOf } from './kinds/plan.js'
import { type Ledger } from './ledger.js'

/** The table whose items go again: its keys are u64 numbers. */
export const bookings = addressOf('b00c')

/** What a transaction does to the table of bookings. */
export interface Booking {
  readonly key: bigint
  readonly does: 'write' | 'delete'
  /** Whether nodes tell the item in JSON too. */
  readonly isDecoded: boolean
}

interface Stay {
  readonly written: number
  readonly deleted: number
}

// Odd places of the cycle, where no other kind stands.
const lanes = [
  { written: 33, deleted: 49, isDecoded: true },
  { written: 37, deleted: 53, isDecoded: false },
  { written: 65, deleted: 81, isDecoded: true },
  { written: 69, deleted: 85, isDecoded: false },
  { written: 97, deleted: 113, isDecoded: true },
  { written: 101, deleted: 117, isDecoded: false }
] as const

// When the resource that goes again is written and deleted.
const turnStay: Stay = { written: 99, deleted: 115 }

/** What a transaction that may be of any kind does to the table; mostly nothing. */
export function bookingOf (ledger: Ledger, version: bigint): Booking | undefined {
  const place = placeOf(ledger, version)
  const lane = lanes.findIndex(({ written, deleted }) => place === written || place === deleted)
  const found = lanes[lane]
  if (found === undefined) return undefined
  const key = (version - ledger.startVersion) / cycle * BigInt(lanes.length) + BigInt(lane)
  if (place === found.written) return { key, does: 'write', isDecoded: found.isDecoded }
  return isBooked(ledger, key, version - 1n) ? { key, does: 'delete', isDecoded: found.isDecoded } : undefined
}

/** Whether an item of the table is there at a version. */
export function isBooked (ledger: Ledger, key: bigint, version: bigint): boolean {
  const lane = lanes[Number(key % BigInt(lanes.length))]
  const turn = key / BigInt(lanes.length)
  return lane !== undefined && hasHappened(ledger, turn, lane.written, version) &&
    !hasHappened(ledger, turn, lane.deleted, version)
}

/** Whether a transaction that may be of any kind writes or deletes the resource that goes again. */
export function isTurn (ledger: Ledger, version: bigint): boolean {
  const place = placeOf(ledger, version)
  return place === turnStay.written || (place === turnStay.deleted && turnAt(ledger, version - 1n) !== undefined)
}

/** The turn of the cycle in which the resource that goes again was written; undefined where it is not there. */
export function turnAt (ledger: Ledger, version: bigint): bigint | undefined {
  for (let turn = (version - ledger.startVersion) / cycle; turn >= 0n; turn--) {
    if (hasHappened(ledger, turn, turnStay.deleted, version)) return undefined
    if (hasHappened(ledger, turn, turnStay.written, version)) return turn
  }
  return undefined
}

// What stands at a place of which no transaction may make free use does not happen.
function hasHappened (ledger: Ledger, turn: bigint, place: number, version: bigint): boolean {
  const at = ledger.startVersion + turn * cycle + BigInt(place)
  return at <= version && isFree(ledger.blockOf(at), at)
}

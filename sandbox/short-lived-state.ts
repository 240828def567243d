import { addressOf } from './address.js'
import { cycleVersions, mayBeAnyKind, offsetInCycle } from './kinds/kind-schedule.js'
import { type Ledger } from './ledger.js'

/** Handle of the table whose items are written and later deleted; its keys are u64 numbers. */
export const shortLivedTable = addressOf('b00c')

/** Change that a transaction makes to the bookings table. */
export interface TableChange {
  readonly key: bigint
  readonly action: 'write' | 'delete'
  /** True if the change contains the decoded item, as nodes that know the table's types print it. */
  readonly isDecoded: boolean
}

interface Lifespan {
  readonly written: number
  readonly deleted: number
}

// Uses odd places of the cycle, which no other kind of transaction uses.
const itemLifespans = [
  { written: 33, deleted: 49, isDecoded: true },
  { written: 37, deleted: 53, isDecoded: false },
  { written: 65, deleted: 81, isDecoded: true },
  { written: 69, deleted: 85, isDecoded: false },
  { written: 97, deleted: 113, isDecoded: true },
  { written: 101, deleted: 117, isDecoded: false }
] as const

// Places of the cycle at which the turn resource is written and deleted.
const turnLifespan: Lifespan = { written: 99, deleted: 115 }

/** Returns the change that a transaction makes to the table, undefined for most; requires `mayBeAnyKind`. */
export function tableChangeOf (ledger: Ledger, version: bigint): TableChange | undefined {
  const place = offsetInCycle(ledger, version)
  const lifespanIndex = itemLifespans.findIndex(({ written, deleted }) => place === written || place === deleted)
  const lifespan = itemLifespans[lifespanIndex]
  if (lifespan === undefined) return undefined
  const key = (version - ledger.startVersion) / cycleVersions * BigInt(itemLifespans.length) + BigInt(lifespanIndex)
  if (place === lifespan.written) return { key, action: 'write', isDecoded: lifespan.isDecoded }
  return itemExistsAt(ledger, key, version - 1n) ? { key, action: 'delete', isDecoded: lifespan.isDecoded } : undefined
}

/** True if an item of the table exists at a version. */
export function itemExistsAt (ledger: Ledger, key: bigint, version: bigint): boolean {
  const lifespan = itemLifespans[Number(key % BigInt(itemLifespans.length))]
  const cycleIndex = key / BigInt(itemLifespans.length)
  return lifespan !== undefined && hasHappened(ledger, cycleIndex, lifespan.written, version) &&
    !hasHappened(ledger, cycleIndex, lifespan.deleted, version)
}

/** True if a transaction writes or deletes the turn resource. */
export function changesTurnResource (ledger: Ledger, version: bigint): boolean {
  const place = offsetInCycle(ledger, version)
  return place === turnLifespan.written ||
    (place === turnLifespan.deleted && turnNumberAt(ledger, version - 1n) !== undefined)
}

/** Returns the cycle in which the turn resource was written; undefined while the resource does not exist. */
export function turnNumberAt (ledger: Ledger, version: bigint): bigint | undefined {
  for (let cycleIndex = (version - ledger.startVersion) / cycleVersions; cycleIndex >= 0n; cycleIndex--) {
    if (hasHappened(ledger, cycleIndex, turnLifespan.deleted, version)) return undefined
    if (hasHappened(ledger, cycleIndex, turnLifespan.written, version)) return cycleIndex
  }
  return undefined
}

// A place whose transaction has a fixed kind is skipped: its change never happens.
function hasHappened (ledger: Ledger, cycleIndex: bigint, place: number, version: bigint): boolean {
  const placeVersion = ledger.startVersion + cycleIndex * cycleVersions + BigInt(place)
  return placeVersion <= version && mayBeAnyKind(ledger.blockOf(placeVersion), placeVersion)
}

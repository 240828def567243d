import {
  type ContentAt,
  defineGroup,
  defineResource,
  type ResourceDefinition,
  objectCore,
  objectGroup
} from './resources.js'
import { type EncodedValue, structValue, textValue, u64Value } from './values.js'
import { addressOf } from './address.js'
import { cycleVersions, mayBeAnyUserKind, offsetInCycle } from './schedule.js'
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

// Uses odd places of the cycle, which no other kind of transaction uses.
const itemLifespans = [
  { written: 33, deleted: 49, isDecoded: true },
  { written: 37, deleted: 53, isDecoded: false },
  { written: 65, deleted: 81, isDecoded: true },
  { written: 69, deleted: 85, isDecoded: false },
  { written: 97, deleted: 113, isDecoded: true },
  { written: 101, deleted: 117, isDecoded: false }
] as const

// Keys repeat after this many cycles, since some items are never deleted and the state must not grow for ever.
const keyCycles = 64n

/** Steps of a resource or group that comes and goes: places of the cycle, and the state from there on. */
type Steps<State extends string> = ReadonlyArray<readonly [place: number, state: State | 'gone']>

/** Returns the change that a transaction makes to the table, undefined for most; requires `mayBeAnyKind`. */
export function tableChangeOf (ledger: Ledger, version: bigint): TableChange | undefined {
  const place = offsetInCycle(ledger, version)
  const lifespanIndex = itemLifespans.findIndex(({ written, deleted }) => place === written || place === deleted)
  const lifespan = itemLifespans[lifespanIndex]
  if (lifespan === undefined) return undefined
  const cycle = (version - ledger.startVersion) / cycleVersions
  const key = cycle % keyCycles * BigInt(itemLifespans.length) + BigInt(lifespanIndex)
  if (place === lifespan.written) return { key, action: 'write', isDecoded: lifespan.isDecoded }
  // Nothing is deleted that this cycle has not written.
  return hasHappened(ledger, cycle, lifespan.written, version)
    ? { key, action: 'delete', isDecoded: lifespan.isDecoded }
    : undefined
}

/** True if a transaction takes one of the steps; nothing is deleted that does not exist. */
function takesStep<State extends string> (ledger: Ledger, steps: Steps<State>, version: bigint): boolean {
  const place = offsetInCycle(ledger, version)
  const step = steps.find(([at]) => at === place)
  return step !== undefined && (step[1] !== 'gone' || lastStepAt(ledger, steps, version - 1n) !== undefined)
}

/** Returns the last step taken and its cycle; undefined while nothing exists. */
function lastStepAt<State extends string> (
  ledger: Ledger,
  steps: Steps<State>,
  version: bigint
): { state: State, cycle: bigint } | undefined {
  for (let cycle = (version - ledger.startVersion) / cycleVersions; cycle >= 0n; cycle--) {
    const last = steps.findLast(([place]) => hasHappened(ledger, cycle, place, version))
    if (last !== undefined) return last[1] === 'gone' ? undefined : { state: last[1], cycle }
  }
  return undefined
}

// A place whose transaction has a fixed kind is skipped: its change never happens.
function hasHappened (ledger: Ledger, cycleIndex: bigint, place: number, version: bigint): boolean {
  if (cycleIndex < 0n) return false
  const placeVersion = ledger.startVersion + cycleIndex * cycleVersions + BigInt(place)
  return placeVersion <= version && mayBeAnyUserKind(ledger.blockOf(placeVersion), placeVersion)
}

const gameAddress = addressOf('42')

const turnSteps: Steps<'whole'> = [[99, 'whole'], [115, 'gone']]
const tokenSteps: Steps<'whole' | 'less'> = [[3, 'whole'], [19, 'less'], [35, 'whole'], [51, 'gone']]
const pieceSteps: Steps<'whole' | 'less'> = [[67, 'whole'], [83, 'less'], [103, 'whole'], [119, 'gone']]

const lifecycles: ReadonlyArray<{ readonly steps: Steps<'whole' | 'less'>, readonly resource: ResourceDefinition }> = [
  {
    steps: turnSteps,
    resource: defineResource(
      gameAddress,
      '0x42::game::Turn',
      memberOf(turnSteps, true, cycle => structValue([['number', u64Value(cycle)]]))
    )
  },
  {
    steps: tokenSteps,
    resource: defineGroup(addressOf('70ce'), objectGroup, {
      '0x1::object::ObjectCore': memberOf(tokenSteps, true, () => objectCore(gameAddress)),
      '0x42::game::Token': memberOf(tokenSteps, true, cycle => structValue([['index', u64Value(cycle)]])),
      '0x42::game::Badge': memberOf(tokenSteps, false, () => structValue([['name', textValue('first')]]))
    })
  },
  {
    steps: pieceSteps,
    resource: defineGroup(gameAddress, '0x42::game::PieceGroup', {
      '0x42::game::Piece': memberOf(pieceSteps, true, cycle => structValue([['square', u64Value(cycle % 64n)]])),
      '0x42::game::Rank': memberOf(pieceSteps, false, () => structValue([['name', textValue('queen')]]))
    })
  }
]

/** Resources and groups that come and go. */
export const shortLivedResources = lifecycles.map(({ resource }) => resource)

/** Returns the resource or group that a transaction writes, shrinks or deletes; undefined for most. */
export function steppedResource (ledger: Ledger, version: bigint): ResourceDefinition | undefined {
  return lifecycles.find(({ steps }) => takesStep(ledger, steps, version))?.resource
}

// A member that does not always exist is removed while the rest of its group lives on.
function memberOf (
  steps: Steps<'whole' | 'less'>,
  isAlways: boolean,
  valueOf: (cycle: bigint) => EncodedValue
): ContentAt {
  return (ledger, version) => {
    const last = lastStepAt(ledger, steps, version)
    return last !== undefined && (isAlways || last.state === 'whole') ? valueOf(last.cycle) : undefined
  }
}

import { addressOf } from './address.js'
import { lastStepAt, type Steps, takesStep } from './short-lived-state.js'
import { type ContentAt, defineGroup, defineResource, type ResourceDefinition } from './resource-definition.js'
import { objectCore, objectGroup } from './native-coin-resources.js'
import { type EncodedValue, structValue, textValue, u64Value } from './encoded-value.js'
import { type Ledger } from './ledger.js'

/** Group of the game's pieces, which is not the group of objects. */
export const pieceGroup = '0x42::game::PieceGroup'

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
    resource: defineGroup(gameAddress, pieceGroup, {
      '0x42::game::Piece': memberOf(pieceSteps, true, cycle => structValue([['square', u64Value(cycle % 64n)]])),
      '0x42::game::Rank': memberOf(pieceSteps, false, () => structValue([['name', textValue('queen')]]))
    })
  }
]

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

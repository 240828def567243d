import { turnNumberAt } from './short-lived-state.js'
import { type ResourceDefinition } from './resource-definition.js'
import { structValue, u64Value } from './encoded-value.js'

/** Resource that transactions write and delete alternately, with matching write set changes. */
export const turnDefinition: ResourceDefinition = {
  type: '0x42::game::Turn',
  contentAt (ledger, version) {
    const turn = turnNumberAt(ledger, version)
    return turn === undefined ? undefined : { value: structValue([['number', u64Value(turn)]]), handles: {} }
  }
}

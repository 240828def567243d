import { turnAt } from './bookings.js'
import { type ResourcePlan } from './resource-plan.js'
import { structValue, u64Value } from './value.js'

/** A resource that is written and deleted in turn by transactions that tell of it. */
export const turnPlan: ResourcePlan = {
  type: '0x42::game::Turn',
  at (ledger, version) {
    const turn = turnAt(ledger, version)
    return turn === undefined ? undefined : { value: structValue([['number', u64Value(turn)]]), handles: {} }
  }
}

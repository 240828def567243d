import { type Ledger } from './ledger.js'
import { type StateKey } from './state-key.js'
import { type StateValue, type Write } from './write.js'

/** Scheduled values change at multiples of this number of places only, so that most places need not look at any. */
export const scheduleStep = 10

/** Value that changes as the chain grows: the next user transaction of the usual kind writes it. */
export interface ScheduledValue {
  readonly key: StateKey
  /** Number of the state, by the versions since the start; undefined where the value does not exist. */
  readonly stateAt: (place: number) => number | undefined
  readonly valueOf: (ledger: Ledger, state: number) => StateValue
}

/** Writes a value as it is at a place. */
export function scheduledWrite ({ key, stateAt, valueOf }: ScheduledValue, ledger: Ledger, place: number): Write {
  const state = stateAt(place)
  return { key, value: () => state === undefined ? undefined : valueOf(ledger, state) }
}

import { type Simulation } from '../simulation/judge.js'
import { type ServedFloors } from './served-floors.js'
import { type VarveProcess } from './varve-process.js'
import { type SoakTally } from './soak-tally.js'

/** A run: its reads, its judges and its counts. */
export interface SoakRun {
  readonly program: VarveProcess
  readonly world: Simulation
  readonly floors: ServedFloors
  readonly tally: SoakTally
}

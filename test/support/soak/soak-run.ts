import { type ReadRun } from '../simulation/run-reads.js'
import { type VarveProcess } from './varve-process.js'

/** A run: its process, its reads, its judges and its counts. */
export interface SoakRun extends ReadRun {
  readonly program: VarveProcess
}

import { type World } from '../fleet/judge.js'
import { type Floors } from './floors.js'
import { type Program } from './program.js'
import { type SoakTally } from './tally.js'

/** A run: what is asked, what decides, and what counts. */
export interface Soak {
  readonly program: Program
  readonly world: World
  readonly floors: Floors
  readonly tally: SoakTally
}

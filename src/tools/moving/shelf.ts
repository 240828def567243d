import { type Control } from '../../cluster/control.js'
import { type PurgeLog } from '../../cluster/purge-log.js'
import { type Patience } from './patience.js'

/** The Redis of replicas, as a command that is none of them reads and fills it. */
export interface Shelf {
  /** What every key begins with. */
  readonly prefix: string
  readonly control: Control
  readonly purges: PurgeLog
  readonly patience: Patience
  readonly now: () => number
  readonly wallClockMs: () => number
}

// A chain id is one byte (docs/node-behaviour.md, "Position headers").
const chainIds = [...Array(256).keys()]

/** The chains that replicas have told of there. */
export async function chainsIn ({ control, patience }: Shelf): Promise<number[]> {
  const found = await Promise.all(
    chainIds.map(async id => await patience.ask('control', async () => await control.has(id)))
  )
  return chainIds.filter(id => found[id])
}

import { candidatesIn } from '../../chain/candidates.js'
import { prove, type Witness } from './proof.js'
import { type Shelf } from './shelf.js'
import { type ExportHead } from './words.js'

/** The generation that a file's entries are brought in under, and whether Redis had none of the chain. */
export interface Claimed {
  readonly generation: number
  readonly isNew: boolean
}

const maxAttempts = 5

/**
 * The generation that replicas of the same chain key by, or a new one that counts only for whose node has one of the
 * file's blocks. A new one has the time for its number: replicas count theirs from one, so should the control key be
 * lost, none comes upon entries that nothing proves any more.
 */
export async function claim (shelf: Shelf, head: ExportHead, witnesses: readonly Witness[]): Promise<Claimed> {
  const { control, patience, wallClockMs } = shelf
  const { chainId, anchors } = head
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const [newest] = candidatesIn(await patience.ask('control', async () => await control.read(chainId)))
    await prove(head, newest?.[1], witnesses)
    if (newest !== undefined) return { generation: newest[0], isNew: newest[1].isUnproven === true }
    const generation = Math.floor(wallClockMs() / 1000)
    await patience.ask(
      'control',
      async () => await control.claim(chainId, generation, { anchors, head: head.head, isUnproven: true })
    )
    // Whoever was first, what stands there now is the word.
  }
  throw new Error('what replicas say of the chain in Redis changed again and again: try once more')
}

/** The generation that replicas of a chain key by now. */
export async function newestGeneration ({ control, patience }: Shelf, chainId: number): Promise<number | undefined> {
  return candidatesIn(await patience.ask('control', async () => await control.read(chainId)))[0]?.[0]
}

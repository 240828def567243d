import { Anchors } from '../../chain/anchors.js'
import { type StampedPosition } from '../../api/position.js'
import { contradicts } from '../../chain/tracker.js'
import { Marks, type Verdict, type Witnessing } from '../../chain/marks.js'
import { type KnownGeneration } from '../../chain/words.js'
import { type ExportHead, Refused } from './words.js'

/** A full node of the chain that a file is to be brought in for. */
export interface Witness extends Witnessing {
  readonly name: string
}

/** What nodes say of the chain of a file, and of that of a Redis. */
interface Words {
  readonly file: Verdict
  readonly redis: Verdict
}

/**
 * Makes sure that a file is of the chain that a Redis is of, by a block that both know or by a node that has blocks of
 * both; refuses what is another chain, and where nobody can tell. `known` is undefined for a Redis with nothing of the
 * chain: there every varve asks its own node before it serves anything, and only what a node says against it now
 * counts.
 */
export async function prove (
  head: ExportHead,
  known: KnownGeneration | undefined,
  witnesses: readonly Witness[]
): Promise<void> {
  const { chainId, anchors } = head
  const own = new Anchors(anchors)
  if (own.newest === undefined) {
    throw new Refused('the file has no blocks by which its chain could be told from another of its name')
  }
  const isRival = known !== undefined &&
    (own.isSameAs(known.anchors) === false ||
      (head.head !== undefined && known.head !== undefined && contradicts(head.head.position, known.head.position)))
  if (isRival) throw new Refused(`Redis has another chain of the same name, ${chainId}: their blocks differ`)
  const words = await Promise.all(witnesses.map(async witness => await askOf(witness, head, known)))
  for (const [at, { file, redis }] of words.entries()) {
    const name = witnesses[at]?.name ?? ''
    if (file === 'other') {
      throw new Refused(
        `the file is of another chain than the node ${name}, which has other blocks at the same heights`
      )
    }
    if (redis === 'other') {
      throw new Refused(`Redis is of another chain than the node ${name}, which has other blocks at the same heights`)
    }
  }
  // Up to its newest block it is the same; a common block further back could be of a time before two chains parted.
  const isKnown =
    known?.anchors.some(({ height, hash }) => height === own.newest?.height && hash === own.newest.hash) === true
  if (known === undefined || isKnown || words.some(({ file, redis }) => file === 'same' && redis === 'same')) return
  throw new Refused(
    `nobody can tell whether the file is of the same chain as what Redis has of chain ${chainId}: ${
      witnesses.length === 0
        ? 'name a full node by --upstream URL, or a --config FILE with upstreams'
        : `no node that answers has both block ${own.newest.height}, the newest that the file is known by, and ` +
          'one that Redis knows; name one with a longer history by --upstream URL'
    }`
  )
}

async function askOf (witness: Witness, head: ExportHead, known: KnownGeneration | undefined): Promise<Words> {
  const now = await witness.readHead()
  if (now === undefined) return { file: 'unknown', redis: 'unknown' }
  return {
    file: await verdictOn(witness, head, now, head.chainId),
    redis: known === undefined ? 'unknown' : await verdictOn(witness, known, now, head.chainId)
  }
}

async function verdictOn (
  witness: Witness,
  known: KnownGeneration,
  { position }: StampedPosition,
  chainId: number
): Promise<Verdict> {
  return position.chainId === chainId ? await new Marks(witness).verdictOn(known, position) : 'other'
}

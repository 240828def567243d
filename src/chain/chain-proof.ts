import { type Position, type ResponsePosition } from '../api/position.js'
import { type Anchor, Anchors } from './anchors.js'
import { type Space, type SpaceRecord } from './space.js'
import { contradicts, type Tracker } from './tracker.js'

/** Reads of an upstream that identify its chain; they reject when a read fails. */
export interface ChainReader {
  /** Reads the final block of a height; undefined if the upstream lacks it. */
  readonly readBlock: (height: bigint) => Promise<Anchor | undefined>
  /** Reads the accumulator root of a version; undefined if the upstream lacks it. */
  readonly readRoot: (version: bigint) => Promise<string | undefined>
}

/** An upstream to compare: its position, and reads of its chain. */
export interface ComparedUpstream extends ChainReader {
  readonly stamped: ResponsePosition
  /** Reads blocks from a verified peer; undefined if there is none. */
  readonly readPeerBlock: ((height: bigint) => Promise<Anchor | undefined>) | undefined
}

/** Chain that an upstream is compared with. */
export type KnownChain = Pick<SpaceRecord, 'anchors' | 'head' | 'root'>

/** Relation of two chains; `unproven` if the upstream has nothing to compare. */
export type ChainRelation = 'same' | 'other' | 'unproven'

/**
 * Relation of an upstream to our chain. An `older` chain has the same chain id and an earlier time. `genesis` and
 * `before` may be another chain: genesis has no time and one hash on every chain, and a head `before` every block that
 * proves our chain cannot be compared.
 */
export type UpstreamRelation = ChainRelation | 'older' | 'genesis' | 'before'

// Bounds the reads at an upstream that does not serve blocks by height.
const maxComparedBlocks = 3

/**
 * Compares a known chain with an upstream's: by position, by the root of the known head, and, if that version is pruned
 * or not there yet, by the newest anchors in the window. Rejects when a read fails.
 */
export async function compareChains (
  { anchors, head, root }: KnownChain,
  position: Position,
  reader: ChainReader
): Promise<ChainRelation> {
  if (head !== undefined && contradicts(position, head.position)) return 'other'
  // Version 0 has the same root on every chain of one genesis.
  if (root !== undefined && root.version > 0n && isInside(root.version, position)) {
    const relation = await compareHash(root.hash, async () => await reader.readRoot(root.version))
    if (relation !== undefined) return relation
  }
  const inside = new Anchors(anchors).within(lowestHeightOf(position), position.head.blockHeight - 1n)
  for (const { height, hash } of inside.slice(0, maxComparedBlocks)) {
    const relation = await compareHash(hash, async () => (await reader.readBlock(height))?.hash)
    if (relation !== undefined) return relation
  }
  return 'unproven'
}

/** Reads a second time before a difference counts, because a difference abandons everything cached. */
async function compareHash (
  known: string,
  read: () => Promise<string | undefined>
): Promise<Exclude<ChainRelation, 'unproven'> | undefined> {
  const hash = await read()
  if (hash === undefined) return undefined
  if (hash === known) return 'same'
  return await read() === hash ? 'other' : undefined
}

function isInside (version: bigint, { head, oldest }: Position): boolean {
  return version >= oldest.version && version <= head.version
}

/** Compares an upstream with the chain that we serve. Rejects when a read fails. */
export async function relationOf (
  compared: ComparedUpstream,
  tracker: Pick<Tracker, 'space' | 'stamped'>
): Promise<UpstreamRelation> {
  const { position } = compared.stamped
  for (;;) {
    const { space, stamped: head } = tracker
    if (space === undefined) return 'unproven'
    const served = head?.position
    if (served !== undefined && isEarlier(position, served) && contradicts(position, served)) return 'older'
    if (served !== undefined) await ensureComparable(space, position, served, compared.readPeerBlock)
    const relation = await compareChains({ anchors: space.anchors, head, root: space.root }, position, compared)
    // A change of space during the comparison makes its result worthless.
    if (space !== tracker.space) continue
    if (relation === 'unproven' && served !== undefined && isGenesis(position) && !isGenesis(served)) return 'genesis'
    const [first] = space.anchors
    if (relation === 'unproven' && first !== undefined && position.head.blockHeight <= first.height) return 'before'
    return relation === 'other' && served !== undefined && isEarlier(position, served) ? 'older' : relation
  }
}

/**
 * Reads the root of a verified upstream's head version and, when they are due, anchors: first at both ends and the
 * middle of the window, later at the head. Resolves with true if no read failed.
 */
export async function proveHead (
  space: Space,
  stamped: ResponsePosition,
  reader: ChainReader,
  withAnchors: boolean
): Promise<boolean> {
  const { readBlock, readRoot } = reader
  const { position } = stamped
  const { version } = position.head
  const { anchors, root } = space
  // An upstream that has changed its chain would prove that chain as ours.
  const relation = await compareChains({ anchors, root, head: undefined }, position, reader).catch(() => 'other')
  if (relation === 'other') return false
  const heights = withAnchors ? anchorHeightsIn(space, position) : []
  const [own, ...read] = await Promise.allSettled([readRoot(version), ...heights.map(readBlock)])
  space.add(read.flatMap(each => each.status === 'fulfilled' && each.value !== undefined ? [each.value] : []))
  const hash = own?.status === 'fulfilled' ? own.value : undefined
  space.prove({ stamped, root: hash === undefined ? undefined : { version, hash } })
  return own?.status === 'fulfilled' && read.every(({ status }) => status === 'fulfilled')
}

/**
 * Makes an upstream comparable: if no root or anchor is in its window, reads an anchor for its heights from a verified
 * upstream. Rejects when that read fails; otherwise a lagging upstream of an old chain would count as ours.
 */
async function ensureComparable (
  space: Space,
  position: Position,
  served: Position,
  readBlock: ComparedUpstream['readPeerBlock']
): Promise<void> {
  if (readBlock === undefined || (space.root !== undefined && isInside(space.root.version, position))) return
  const lowest = lowestHeightOf(position)
  const heads = [position.head.blockHeight, served.head.blockHeight]
  const newest = heads.reduce((a, b) => a < b ? a : b) - 1n
  if (newest < lowest || new Anchors(space.anchors).within(lowest, newest).length > 0) return
  const block = await readBlock(newest)
  if (block !== undefined) space.add([block])
}

function anchorHeightsIn (space: Space, position: Position): bigint[] {
  const newest = position.head.blockHeight - 1n
  const known = space.anchors.at(-1)?.height
  if (newest < 1n || (known !== undefined && newest <= known)) return []
  // Includes the start and the middle of the window, because a shorter chain has no block at the newest height.
  const lowest = lowestHeightOf(position)
  const heights = known === undefined ? [newest, (lowest + newest) / 2n, lowest] : [newest]
  return [...new Set(heights)]
}

// The genesis block has the same hash on every chain, so it proves nothing.
function lowestHeightOf ({ oldest }: Position): bigint {
  return oldest.blockHeight < 1n ? 1n : oldest.blockHeight
}

// Of two chains with the same chain id, the newer has the later time ("Chains and resets").
function isEarlier (position: Position, served: Position): boolean {
  return position.head.timestampUsec < served.head.timestampUsec
}

function isGenesis ({ head }: Position): boolean {
  return head.version === 0n
}

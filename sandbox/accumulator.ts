import { ownBytes } from './bcs.js'
import { hasherOf } from './digests.js'

/** Stands for each subtree that has no leaf yet; the root of an empty accumulator. */
const placeholder = Buffer.concat([Buffer.from('ACCUMULATOR_PLACEHOLDER_HASH')], 32)

const chunkBits = 10
const chunkLeaves = 1 << chunkBits
const hashBytes = 32

const hashEventNode = hasherOf('EventAccumulator')
const hashTransactionNode = hasherOf('TransactionAccumulator')

/** Returns the root over the hashes of a transaction's events. */
export function eventRoot (leaves: readonly Buffer[]): Buffer {
  let level = leaves
  while (level.length > 1) {
    level = Array.from(
      { length: Math.ceil(level.length / 2) },
      (_, index) => hashEventNode(level[2 * index] ?? placeholder, level[2 * index + 1] ?? placeholder)
    )
  }
  return level[0] ?? placeholder
}

/** Merkle accumulator of transactions; it knows the root after each leaf that is not pruned. */
export class TransactionAccumulator {
  #leafCount = 0
  #oldestChunk = 0
  /** Complete subtrees below the top of each chunk of leaves, level by level. */
  readonly #chunks = new Map<number, Buffer>()
  /** Complete subtrees from one chunk up, by level; never pruned, since each later root needs some. */
  readonly #upper: Buffer[][] = []

  get leafCount (): number {
    return this.#leafCount
  }

  /** Adds the leaf of the next transaction. */
  append (leaf: Buffer): void {
    let index = this.#leafCount++
    let node = leaf
    this.#set(0, index, node)
    for (let level = 1; index % 2 === 1; level++) {
      node = hashTransactionNode(this.#get(level - 1, index - 1), node)
      index = (index - 1) / 2
      this.#set(level, index, node)
    }
  }

  /** Returns the root over a number of leaves. */
  rootOf (leafCount: number): Buffer {
    // The subtree that has the last leaf and a part without leaves; undefined while all subtrees are complete.
    let partial: Buffer | undefined
    for (let level = 0, complete = leafCount; complete > 0; level++, complete = Math.floor(complete / 2)) {
      if (complete % 2 === 1) {
        const last = this.#get(level, complete - 1)
        if (complete === 1 && partial === undefined) return last
        partial = hashTransactionNode(last, partial ?? placeholder)
      } else if (partial !== undefined) partial = hashTransactionNode(partial, placeholder)
    }
    return partial ?? placeholder
  }

  /** Drops what only roots before a leaf need. */
  pruneTo (leaf: number): void {
    for (; (this.#oldestChunk + 1) * chunkLeaves <= leaf; this.#oldestChunk++) this.#chunks.delete(this.#oldestChunk)
  }

  #get (level: number, index: number): Buffer {
    const [chunk, at] = placeInChunk(level, index)
    const node = level < chunkBits
      ? this.#chunks.get(chunk)?.subarray(at, at + hashBytes)
      : this.#upper[level - chunkBits]?.[index]
    if (node === undefined) throw new RangeError(`subtree ${index} of level ${level} was dropped`)
    return node
  }

  #set (level: number, index: number, node: Buffer): void {
    if (level < chunkBits) {
      const [chunk, at] = placeInChunk(level, index)
      const nodes = this.#chunks.get(chunk) ?? Buffer.alloc(2 * chunkLeaves * hashBytes)
      node.copy(nodes, at)
      this.#chunks.set(chunk, nodes)
    } else (this.#upper[level - chunkBits] ??= []).push(ownBytes(node))
  }
}

// Level by level: 1,024 leaves, 512 nodes above, and so on.
function placeInChunk (level: number, index: number): [chunk: number, at: number] {
  const nodes = chunkLeaves >> level
  const chunk = Math.floor(index / nodes)
  return [chunk, (2 * (chunkLeaves - nodes) + index - chunk * nodes) * hashBytes]
}

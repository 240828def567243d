import { readBlockHead } from '../../api/block-head.js'
import { readU64 } from '../../api/integer.js'
import { OutOfReach } from './asking.js'
import { beginningOf, type Came, headerOf } from './came.js'
import { type Run, type Warming } from './warming.js'

/** The blocks that hold a range of versions, both ends included. */
export interface Range {
  readonly from: bigint
  readonly to: bigint
  /** Read with their transactions. */
  readonly transactions: boolean
}

/** A part of the range that is walked from block to block. */
interface Piece {
  next: bigint
  readonly to: bigint
}

// So many blocks a piece: each begins with a read that may be of a block which the one before it ends with.
const blocksPerPiece = 50n
// Of versions, until it is known how long blocks are.
const firstPiece = 100n
// As many as may be walked at once, and more.
const mostCrossing = 512

/** Reads every block of a range, each once but for the seams between pieces. */
export class Blocks implements Warming {
  readonly noun = { one: 'block', many: 'blocks' }
  readonly aside = undefined
  blocks = 0
  /** Versions that no node has any more. */
  pruned = 0n
  #unread: bigint
  #done = 0n
  #versions = 0n
  #oldest = 0n
  // Where the chain ends, once that is known.
  #head: bigint | undefined
  readonly #range: Range
  readonly #walking = new Set<Piece>()
  // Blocks that reach beyond a piece, so that none is read, or counted, for each piece that has a part of it.
  readonly #crossing: Array<{ readonly first: bigint, readonly last: bigint }> = []

  constructor (range: Range) {
    this.#range = range
    this.#unread = range.from
  }

  get reads (): number {
    return this.blocks
  }

  get share (): number {
    const { from, to } = this.#range
    return Number(this.#done * 10_000n / (to - from + 1n)) / 10_000
  }

  /** The lowest version that was not read. */
  get #left (): bigint {
    let left = this.#unread
    for (const { next } of this.#walking) if (next < left) left = next
    return left
  }

  get resume (): readonly string[] | undefined {
    const { to, transactions } = this.#range
    const left = this.#left
    return left > to
      ? undefined
      : ['--from', String(left), '--to', String(to), ...(transactions ? ['--transactions'] : [])]
  }

  get lost (): string | undefined {
    const lost = [
      ...(this.pruned > 0n
        ? [
          `${this.pruned} ${
            this.pruned === 1n ? 'version is' : 'versions are'
          } below the oldest one that the nodes have, ${this.#oldest}`
        ]
        : []),
      ...(this.#head !== undefined ? [`the chain has got to version ${this.#head}`] : [])
    ]
    return lost.length > 0 ? lost.join('; ') : undefined
  }

  async work (run: Run): Promise<void> {
    while (!run.signal.aborted) {
      const piece = this.#take()
      if (piece === undefined) return
      this.#walking.add(piece)
      if (!await this.#walk(piece, run)) return
      this.#walking.delete(piece)
    }
  }

  #take (): Piece | undefined {
    const { to } = this.#range
    // What the nodes have pruned is not asked for one by one.
    if (this.#unread < this.#oldest) this.#skip(this.#unread, min(this.#oldest - 1n, to))
    if (this.#unread < this.#oldest) this.#unread = this.#oldest
    this.#unread += this.#crossed(this.#unread, to)
    if (this.#unread > to || (this.#head !== undefined && this.#unread > this.#head)) return undefined
    const length = this.blocks === 0 ? firstPiece : max(1n, this.#versions * blocksPerPiece / BigInt(this.blocks))
    const piece = { next: this.#unread, to: min(this.#unread + length - 1n, to) }
    this.#unread = piece.to + 1n
    return piece
  }

  /** Whether it came to the end of its piece. */
  async #walk (piece: Piece, { asking, tally }: Run): Promise<boolean> {
    const begin = piece.next
    for (;;) {
      piece.next += this.#crossed(piece.next, piece.to)
      if (piece.next > piece.to) return true
      const came = await asking.ask({
        method: 'GET',
        target: `/v1/blocks/by_version/${piece.next}${this.#range.transactions ? '?with_transactions=true' : ''}`
      })
      if (came === undefined) return false
      if (came.status === 410) {
        if (!this.#jump(piece, came)) return false
        continue
      }
      const head = came.status === 404 ? positionIn(came, '-ledger-version') : undefined
      if (head !== undefined && head < piece.next) {
        // The others go on: what is below is to be read all the same.
        this.#head = max(this.#head ?? 0n, head)
        return false
      }
      const block = came.status === 200 ? readBlockHead(came.body, 'json') : undefined
      if (block === undefined || block.last < piece.next) {
        throw new OutOfReach(`version ${piece.next} cannot be read: ${saidBy(came)}`)
      }
      if (this.#isNew(block, begin, piece.to)) {
        tally.count(came)
        this.blocks++
        this.#versions += block.last - block.first + 1n
      }
      this.#done += min(block.last, piece.to) - piece.next + 1n
      piece.next = block.last + 1n
    }
  }

  /** Whether nobody has read a block for another piece. */
  #isNew (block: { readonly first: bigint, readonly last: bigint }, from: bigint, to: bigint): boolean {
    if (from <= block.first && block.last <= to) return true
    if (this.#crossing.some(({ first }) => first === block.first)) return false
    this.#crossing.push(block)
    if (this.#crossing.length > mostCrossing) this.#crossing.shift()
    return true
  }

  /** How many versions from one on are of a block that was read; they are done. */
  #crossed (from: bigint, to: bigint): bigint {
    const block = this.#crossing.find(({ first, last }) => first <= from && from <= last)
    const versions = block === undefined || from > to ? 0n : min(block.last, to) - from + 1n
    this.#done += versions
    return versions
  }

  #jump (piece: Piece, came: Came): boolean {
    const oldest = positionIn(came, '-ledger-oldest-version')
    if (oldest === undefined || oldest <= piece.next) {
      throw new OutOfReach(`version ${piece.next} cannot be read: ${saidBy(came)}`)
    }
    this.#oldest = max(this.#oldest, oldest)
    this.#skip(piece.next, min(oldest - 1n, piece.to))
    piece.next = oldest
    return true
  }

  #skip (from: bigint, to: bigint): void {
    this.pruned += to - from + 1n
    this.#done += to - from + 1n
  }
}

// Under whichever family of names it comes.
function positionIn ({ headers }: Came, end: string): bigint | undefined {
  const value = Object.entries(headers).find(([name]) => name.endsWith(end))?.[1]
  return typeof value === 'string' ? readU64(value) : undefined
}

function saidBy (came: Came): string {
  const { status, body } = came
  const said = body.length === 0 ? 'with nothing in it' : beginningOf(came)
  return `the answer is ${status}, ${said}${
    headerOf(came, 'cache-status') === undefined ? '; that is no varve: --url names another address' : ''
  }`
}

function min (a: bigint, b: bigint): bigint {
  return a < b ? a : b
}

function max (a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

import { randomBytes } from 'node:crypto'
import { type ResponsePosition } from '../api/position.js'
import { type Anchor, Anchors } from './anchors.js'

/** Accumulator root of a version: chains that have it share all history up to that version. */
export interface Root {
  readonly version: bigint
  readonly hash: string
}

/** Form of a space in the places that processes share. */
export interface SpaceRecord {
  readonly chainId: number
  /** Random name, so that no two chains share one; every key on every tier begins with it. */
  readonly name: string
  readonly anchors: readonly Anchor[]
  readonly head: ResponsePosition | undefined
  /** Root of the version of the head; undefined if no upstream served it. */
  readonly root: Root | undefined
  /** Names of spaces that are never used again. */
  readonly replaces: readonly string[]
}

/** Head of a chain with its root. */
export interface ProvenHead {
  readonly stamped: ResponsePosition
  readonly root: Root | undefined
}

// Bounds the names of replaced spaces in a record (law 10: nothing grows without bound).
const maxReplaced = 64
const nameBytes = 8

/**
 * One chain as varve knows it (law 7: chains never mix). Two objects are never the same space, so work that began in
 * one space is not current in another.
 */
export class Space {
  readonly chainId: number
  readonly name: string
  readonly replaces: readonly string[]
  #anchors: Anchors
  #head: ProvenHead | undefined
  #revision = 0

  private constructor ({ chainId, name, anchors, head, root, replaces }: SpaceRecord) {
    this.chainId = chainId
    this.name = name
    this.replaces = replaces
    this.#anchors = new Anchors(anchors)
    this.#head = head && { stamped: head, root }
  }

  /** Begins a space that no other process knows yet. */
  static begin (chainId: number, replaces: readonly string[] = []): Space {
    return Space.from({ chainId, name: newName(), anchors: [], head: undefined, root: undefined, replaces })
  }

  /** Returns the space of a record. */
  static from (record: SpaceRecord): Space {
    return new Space(record)
  }

  /** Begins a space of the same chain; the replaced spaces are never used again. */
  successor (replaced: readonly string[]): Space {
    const replaces = [...new Set([...replaced, ...this.replaces])].slice(0, maxReplaced)
    return Space.from({ ...this.record, name: newName(), replaces })
  }

  get anchors (): readonly Anchor[] {
    return this.#anchors.list
  }

  get root (): Root | undefined {
    return this.#head?.root
  }

  /** Grows whenever there is more to record. */
  get revision (): number {
    return this.#revision
  }

  get record (): SpaceRecord {
    const { chainId, name, anchors, replaces } = this
    return { chainId, name, anchors, head: this.#head?.stamped, root: this.root, replaces }
  }

  /** True if another process could prove the chain by the record. */
  get isProvable (): boolean {
    return this.anchors.length > 0 || (this.root !== undefined && this.root.version > 0n)
  }

  /** Adds anchors; returns false if none is new. */
  add (anchors: readonly Anchor[]): boolean {
    const isNew = this.#anchors.add(anchors)
    if (isNew) this.#revision++
    return isNew
  }

  /** Records a newer head of the chain; returns false if it is not newer. */
  prove (head: ProvenHead): boolean {
    if (head.stamped.position.head.version <= (this.#head?.stamped.position.head.version ?? -1n)) return false
    this.#head = head
    this.#revision++
    return true
  }
}

function newName (): string {
  return randomBytes(nameBytes).toString('hex')
}

import { Anchors } from './anchors.js'
import { type Space, type SpaceRecord } from './space.js'
import { withTimeout } from '../with-timeout.js'

/**
 * Place that processes share: Redis, or the folder of the disk tier. It has the newest few spaces of each chain id in
 * its own order, newest first; its methods reject while it is unreachable.
 */
export interface SpacePlace {
  read(chainId: number): Promise<readonly SpaceRecord[]>
  /**
   * Records a space, a new space before all others; resolves with the list once the record is durable. With
   * `replacesAll` the list stays unchanged while it has another space of the chain that the record does not replace.
   */
  put(record: SpaceRecord, replacesAll?: boolean): Promise<readonly SpaceRecord[]>
  /** Reads the spaces that the upstreams of this process last had. */
  remembered(): Promise<ReadonlyArray<Pick<SpaceRecord, 'chainId' | 'name'>>>
}

// Older spaces of a chain id have nothing that is still served.
const maxSpaces = 8
// Limits how long a hanging disk delays a caller; a record that is written later still counts.
const maxPutMs = 1000

/** A place with what this process knows of it; a place that is unreachable has no list. */
export class KnownPlace {
  readonly #place: SpacePlace
  // Last list that was read; restores records that the place loses.
  #list: readonly SpaceRecord[] = []
  // Space that the place is known to have, and the revision of it that was recorded there.
  #placed: { readonly space: Space, readonly revision: number } | undefined
  #isSuspended = false

  constructor (place: SpacePlace) {
    this.#place = place
  }

  get list (): readonly SpaceRecord[] {
    return this.#list
  }

  /** True while the place may have another list than the last list that was read. */
  get isSuspended (): boolean {
    return this.#isSuspended
  }

  /** True if the place has the present space. */
  has (space: Space): boolean {
    return this.#placed?.space === space
  }

  /** True if the place has another state of the space. */
  isOutdated (space: Space): boolean {
    return !this.has(space) || this.#placed?.revision !== space.revision
  }

  suspend (): void {
    this.#isSuspended = true
    this.#placed = undefined
  }

  /** Uses the place for a space that is in its list, even if the place rejects writes now: it still has its entries. */
  use (space: Space): void {
    if (this.#isSuspended || this.has(space) || !this.#lists(space)) return
    this.#placed = { space, revision: -1 }
  }

  /** Reads the list, and restores what the place has lost. */
  async read (chainId: number): Promise<readonly SpaceRecord[] | undefined> {
    const before = this.#list
    const list = await this.#place.read(chainId).catch(() => undefined)
    if (list === undefined) return undefined
    this.#isSuspended = false
    const restored = await this.#restoreLost(list, chainId).catch(() => list)
    // Keeps a list that a write of this process has returned meanwhile, unless that list is of another chain id.
    const isNewer = this.#list !== before && this.#list.some(record => record.chainId === chainId)
    if (!isNewer) this.#list = restored
    if (this.#placed !== undefined && !this.#lists(this.#placed.space)) this.#placed = undefined
    return this.#list
  }

  /** Records a space. */
  async put (space: Space, replacesAll = false): Promise<readonly SpaceRecord[] | undefined> {
    const { revision, record } = space
    const list = await withTimeout(maxPutMs, this.#place.put(record, replacesAll)).catch(() => undefined)
    if (list === undefined) return undefined
    this.#isSuspended = false
    this.#list = list
    if (this.#lists(space)) this.#placed = { space, revision }
    return list
  }

  #lists ({ name }: Space): boolean {
    return this.#list.some(record => record.name === name)
  }

  // Writes the oldest records first, because the place puts a new record before all others.
  async #restoreLost (list: readonly SpaceRecord[], chainId: number): Promise<readonly SpaceRecord[]> {
    // A full list has dropped its oldest records, which are not lost.
    const before = list.length < maxSpaces ? this.#list : []
    const lost = before.filter(({ name, chainId: id }) => id === chainId && !list.some(other => other.name === name))
    let after = list
    for (const record of lost.reverse()) after = await withTimeout(maxPutMs, this.#place.put(record)) ?? after
    return after
  }
}

/** Returns a list with a record, or the list itself if `replacesAll` forbids that. */
export function withSpace (
  list: readonly SpaceRecord[],
  record: SpaceRecord,
  replacesAll = false
): readonly SpaceRecord[] {
  const known = list.find(({ name }) => name === record.name)
  if (known !== undefined) {
    const newer = versionOf(known) > versionOf(record) ? { head: known.head, root: known.root } : {}
    return list.map(other => other === known ? { ...record, ...newer } : other)
  }
  if (replacesAll && list.some(other => !record.replaces.includes(other.name) && mayBeSameChain(other, record))) {
    return list
  }
  return [record, ...list].slice(0, maxSpaces)
}

/** Returns true unless anchors prove that two spaces are of different chains. */
export function mayBeSameChain (a: SpaceRecord, b: SpaceRecord): boolean {
  return new Anchors(a.anchors).isSameChain(b.anchors) !== false
}

/** Merges the lists of places: of each name the record with the highest version, in order of first occurrence. */
export function mergeSpaces (lists: ReadonlyArray<readonly SpaceRecord[]>): readonly SpaceRecord[] {
  const byName = new Map<string, SpaceRecord>()
  for (const record of lists.flat()) {
    const other = byName.get(record.name)
    if (other === undefined || versionOf(record) > versionOf(other)) byName.set(record.name, record)
  }
  return [...byName.values()]
}

/** Returns the names of all spaces that a record replaces. */
export function replacedIn (records: ReadonlyArray<Pick<SpaceRecord, 'replaces'>>): ReadonlySet<string> {
  return new Set(records.flatMap(({ replaces }) => replaces))
}

function versionOf ({ head }: SpaceRecord): bigint {
  return head?.position.head.version ?? -1n
}

/** Returns the records that no other given record replaces. */
export function newestOf (records: readonly SpaceRecord[]): SpaceRecord[] {
  const replaced = replacedIn(records)
  return records.filter(({ name }) => !replaced.has(name))
}

/** Returns the records newer than the record of a space; all records if the space has none. */
export function newerThan ({ name }: Pick<SpaceRecord, 'name'>, records: readonly SpaceRecord[]): SpaceRecord[] {
  const at = records.findIndex(record => record.name === name)
  return records.slice(0, at === -1 ? records.length : at)
}

/**
 * Returns the record that replaces a space. The process that wrote it knew the space, so both are of one chain unless
 * anchors differ.
 */
export function successorOf (
  space: Pick<SpaceRecord, 'name' | 'anchors'>,
  records: readonly SpaceRecord[]
): SpaceRecord | undefined {
  return records.find(({ replaces, anchors }) =>
    replaces.includes(space.name) && new Anchors(space.anchors).isSameChain(anchors) !== false
  )
}

/** Returns true if the newest record may continue the space that an upstream last had. */
export function continues (newest: SpaceRecord, name: string, records: readonly SpaceRecord[]): boolean {
  if (newest.name === name || newest.replaces.includes(name)) return true
  const record = records.find(other => other.name === name)
  return record !== undefined && new Anchors(record.anchors).isSameChain(newest.anchors) === true
}

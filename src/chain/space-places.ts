import { Anchors } from './anchors.js'
import { type SpaceRecord } from './space.js'

/**
 * Place that processes share: Redis, or the folder of the disk tier. It has the newest few spaces of each chain id in
 * its own order, newest first; its methods reject while it is unreachable.
 */
export interface SpacePlace {
  read(chainId: number): Promise<readonly SpaceRecord[]>
  /**
   * Records a space, a new one before all others; resolves once that is durable, with the list as it is then. With
   * `replacesAll` the list stays as it is while it has another space of the chain that the record does not replace.
   */
  put(record: SpaceRecord, replacesAll?: boolean): Promise<readonly SpaceRecord[]>
  /** Reads the spaces that this process's upstreams last had. */
  remembered(): Promise<ReadonlyArray<Pick<SpaceRecord, 'chainId' | 'name'>>>
}

// Older spaces of a chain id have nothing that is still served.
export const maxSpaces = 8

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

/** Merges the lists of places; the order of an earlier place decides. */
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

/** Returns the records that none of them replaces. */
export function newestOf (records: readonly SpaceRecord[]): SpaceRecord[] {
  const replaced = replacedIn(records)
  return records.filter(({ name }) => !replaced.has(name))
}

/** Returns the records before that of a space, or all where it has none. */
export function newerThan ({ name }: Pick<SpaceRecord, 'name'>, records: readonly SpaceRecord[]): SpaceRecord[] {
  const at = records.findIndex(record => record.name === name)
  return records.slice(0, at === -1 ? records.length : at)
}

/** Returns a record that replaces a space: its process knew it, so both are of one chain unless anchors differ. */
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

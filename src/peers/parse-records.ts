import { type Anchor } from '../chain/anchors.js'
import { isEncryptionKey, isHeaderPrefix, type ResponsePosition } from '../api/position.js'
import { type Root, type SpaceRecord } from '../chain/space.js'
import { crc32 } from 'node:zlib'

/** Sign of life of a peer: a number that rises, and the releases of the peer's upstreams. */
export interface Heartbeat {
  readonly id: string
  readonly beat: number
  readonly releases: readonly string[]
}

/** Sign of life of a process that serves heads together with others: a number that rises. */
export type Beat = Pick<Heartbeat, 'id' | 'beat'>

/** Space that an upstream last had. */
export type LastSpace = Pick<SpaceRecord, 'chainId' | 'name'>

/** Purge of one read, which each process applies in its own space. */
export interface Purge {
  readonly id: string
  /** Space in which the tier that peers share was purged. */
  readonly space: string
  /** The read, in the form of the purge route. */
  readonly request: string
}

// Records of other versions of varve may have another shape, and then count as absent (law 13: what was stored
// elsewhere is checked before it is trusted).

/** Parses the sealed spaces of a chain id; leaves out items that are no record of a space. */
export function parseSpaces (text: string | undefined, chainId: number): SpaceRecord[] {
  return parseList(text, parseSpace).filter(record => record.chainId === chainId)
}

/** Parses the record of a space. */
export function parseSpace (value: unknown): SpaceRecord | undefined {
  if (!isObject(value)) return undefined
  const { chainId, name, anchors, head, root, replaces } = value
  if (
    typeof chainId !== 'number' || !isSpaceName(name) || !isListOf(anchors, isAnchor) ||
    !isListOf(replaces, isSpaceName) || (head !== undefined && !isStamped(head)) ||
    (root !== undefined && !isRoot(root))
  ) return undefined
  return { chainId, name, anchors, head, root, replaces }
}

/** Parses the sealed heartbeats of the peers; leaves out items that are no heartbeat. */
export function parseHeartbeats (text: string | undefined): Heartbeat[] {
  return parseList(text, value => {
    if (!isObject(value)) return undefined
    const { id, beat, releases } = value
    return isText(id) && typeof beat === 'number' && isListOf(releases, isText) ? { id, beat, releases } : undefined
  })
}

/** Parses the sealed beats of processes; leaves out items that are no beat. */
export function parseBeats (text: string | undefined): Beat[] {
  return parseList(text, value => {
    if (!isObject(value)) return undefined
    const { id, beat } = value
    return isText(id) && typeof beat === 'number' ? { id, beat } : undefined
  })
}

/** Parses the sealed space that an upstream last had. */
export function parseLastSpace (text: string | undefined): LastSpace | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value) || typeof value['chainId'] !== 'number' || !isSpaceName(value['name'])) return undefined
  return { chainId: value['chainId'], name: value['name'] }
}

/** Parses the log of purges, a text with a checksum; leaves out items that are no purge. */
export function parsePurges (text: string | undefined): Purge[] {
  return parseList(text, value => {
    if (!isObject(value)) return undefined
    const { id, space, request } = value
    return isText(id) && isSpaceName(space) && isText(request) ? { id, space, request } : undefined
  })
}

function parseList<T> (text: string | undefined, parse: (item: unknown) => T | undefined): T[] {
  const value = decodeWithChecksum(text)
  return Array.isArray(value) ? value.map(parse).filter(item => item !== undefined) : []
}

/** Returns true for a position of a response. */
export function isStamped (value: unknown): value is ResponsePosition {
  if (
    !isObject(value) || !isObject(value['position']) || !isText(value['family']) || !isHeaderPrefix(value['family'])
  ) {
    return false
  }
  const { chainId, head, oldest } = value['position']
  return (value['encryptionKey'] === undefined || isEncryptionKey(value['encryptionKey'])) &&
    typeof chainId === 'number' && isObject(head) && isObject(oldest) &&
    (head['epoch'] === undefined || typeof head['epoch'] === 'bigint') &&
    [head['version'], head['timestampUsec'], head['blockHeight'], oldest['version'], oldest['blockHeight']].every(
      part => typeof part === 'bigint'
    )
}

function isAnchor (value: unknown): value is Anchor {
  return isObject(value) && typeof value['height'] === 'bigint' && isText(value['hash'])
}

function isRoot (value: unknown): value is Root {
  return isObject(value) && typeof value['version'] === 'bigint' && isText(value['hash'])
}

/** Returns true for the name of a space. */
export function isSpaceName (value: unknown): value is string {
  return isText(value) && /^[0-9a-f]{16}$/.test(value)
}

function isText (value: unknown): value is string {
  return typeof value === 'string'
}

/** Returns true for a list whose items all pass a check. */
export function isListOf<T> (value: unknown, isItem: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(isItem)
}

/** Returns true for an object or a list. */
export function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/**
 * Serialises a value with a checksum, so that damage counts as absence (law 13: what was stored elsewhere is checked
 * before it is trusted).
 */
export function encodeWithChecksum (value: unknown): string {
  const text = JSON.stringify(value, (_key, item: unknown) => typeof item === 'bigint' ? `${item}n` : item)
  return `${crc32(text).toString(16)} ${text}`
}

/** Parses a sealed text; undefined if it is damaged. */
export function decodeWithChecksum (text: string | undefined): unknown {
  const [, checksum, json] = /^([0-9a-f]{1,8}) (.*)$/s.exec(text ?? '') ?? []
  if (json === undefined || crc32(json).toString(16) !== checksum) return undefined
  try {
    return JSON.parse(
      json,
      (_key, item: unknown) => typeof item === 'string' && /^[0-9]+n$/.test(item) ? BigInt(item.slice(0, -1)) : item
    )
  } catch {
    return undefined
  }
}

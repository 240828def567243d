/** Where the chain stood when an answer was made: the half that rises with every block. */
export interface Head {
  readonly version: bigint
  readonly timestampUsec: bigint
  readonly epoch: bigint | undefined
  readonly blockHeight: bigint
}

/** How far back the answering node's history goes. */
export interface Oldest {
  readonly version: bigint
  readonly blockHeight: bigint
}

/** A ledger position: both halves and the chain they are of. */
export interface Position {
  readonly chainId: number
  readonly head: Head
  readonly oldest: Oldest
}

/** Response headers by lower-case name, as an HTTP client hands them over; an array where a line was repeated. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** A position as read from an answer, with the prefix of the names that it came under. */
export interface StampedPosition {
  readonly position: Position
  readonly family: string
}

/** The order of two u64s, the lower first. */
export function compareU64 (a: bigint, b: bigint): -1 | 0 | 1 {
  return a === b ? 0 : a < b ? -1 : 1
}

/** The prefix of varve's own position headers, the same in front of every chain. */
export const specificationFamily = 'x-node-'

/** Whether a text can be the prefix of header names: what a node's own are read by, but others only tell of. */
export function isFamily (text: string): boolean {
  return /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}-$/.test(text)
}

// What follows the prefix of a family in the names of its lines, in the order in which nodes send them.
const headerSuffixes = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
]

// Every answer is read by them, and nodes use one or two families; whatever a node makes up, these stay few (law 10).
const headerNameCache = new Map<string, readonly string[]>()
const maxCachedFamilies = 16

/** The names of a position's lines in a family. */
export function headerNamesOf (family: string): readonly string[] {
  const known = headerNameCache.get(family)
  if (known !== undefined) return known
  const names = headerSuffixes.map(name => family + name)
  if (headerNameCache.size >= maxCachedFamilies) headerNameCache.clear()
  headerNameCache.set(family, names)
  return names
}

/**
 * Reads the position from an answer's headers, whatever family their names belong to.
 * Undefined where a required line is missing, repeated or impossible, or where two families contradict each other.
 */
export function readPosition (headers: ResponseHeaders): StampedPosition | undefined {
  const found: StampedPosition[] = []
  for (const name in headers) {
    if (!name.endsWith('-ledger-version')) continue
    const family = name.slice(0, -'ledger-version'.length)
    const position = readFamilyPosition(headers, family)
    if (position !== undefined) found.push({ position, family })
  }
  // A varve in front of a varve sends both its own and the node's names; the node's are the family to learn.
  const [first] = found.sort((a, b) =>
    Number(a.family === specificationFamily) - Number(b.family === specificationFamily)
  )
  return first !== undefined && found.every(other => isSamePosition(other.position, first.position)) ? first : undefined
}

/** Whether two positions say the same. */
export function isSamePosition (a: Position, b: Position): boolean {
  return a.chainId === b.chainId &&
    a.head.version === b.head.version && a.head.timestampUsec === b.head.timestampUsec &&
    a.head.epoch === b.head.epoch && a.head.blockHeight === b.head.blockHeight &&
    a.oldest.version === b.oldest.version && a.oldest.blockHeight === b.oldest.blockHeight
}

/** The header lines of a position under the names of a family, flat. */
export function positionHeaders ({ chainId, head, oldest }: Position, names: readonly string[]): string[] {
  const values = [
    chainId,
    head.version,
    oldest.version,
    head.timestampUsec,
    head.epoch,
    head.blockHeight,
    oldest.blockHeight
  ]
  const headers: string[] = []
  for (let at = 0; at < values.length; at++) {
    const [name = '', value] = [names[at], values[at]]
    if (value !== undefined) headers.push(name, String(value))
  }
  return headers
}

// The year 2255: a later time is no time, and what was believed once could never be corrected, since every true answer
// would be of an older chain (law 7).
const maxTimestampUsec = 2n ** 53n

function readFamilyPosition (headers: ResponseHeaders, family: string): Position | undefined {
  // A listing would go on at one of two places, and nobody knows at which.
  if (Array.isArray(headers[`${family}cursor`])) return undefined
  const [chainId, version, oldestVersion, timestampUsec, epoch, blockHeight, oldestHeight] = headerNamesOf(family).map(
    name => readHeaderU64(headers[name])
  )
  if (
    chainId === undefined || version === undefined || oldestVersion === undefined || timestampUsec === undefined ||
    blockHeight === undefined || oldestHeight === undefined
  ) return undefined
  if (chainId > 255n || timestampUsec > maxTimestampUsec || oldestVersion > version || oldestHeight > blockHeight) {
    return undefined
  }
  return {
    chainId: Number(chainId),
    head: { version, timestampUsec, epoch, blockHeight },
    oldest: { version: oldestVersion, blockHeight: oldestHeight }
  }
}

function readHeaderU64 (text: string | string[] | undefined): bigint | undefined {
  if (typeof text !== 'string' || !/^[0-9]{1,20}$/.test(text)) return undefined
  const value = BigInt(text)
  return value < 2n ** 64n ? value : undefined
}

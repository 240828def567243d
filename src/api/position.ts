/** Head of the chain when a response was made; rises with every block. */
export interface Head {
  readonly version: bigint
  readonly timestampUsec: bigint
  readonly epoch: bigint | undefined
  readonly blockHeight: bigint
}

/** Oldest history that the responding upstream has. */
export interface Oldest {
  readonly version: bigint
  readonly blockHeight: bigint
}

/** Ledger position that one response states, with its chain id. */
export interface Position {
  readonly chainId: number
  readonly head: Head
  readonly oldest: Oldest
}

/** Response headers by lower-case name; an array if a header was repeated. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Position of a response, and the prefix of its headers' names. */
export interface ResponsePosition {
  readonly position: Position
  readonly family: string
  /** Key of the position's epoch with which clients encrypt transactions. */
  readonly encryptionKey?: string | undefined
}

/** Compares u64s in ascending order. */
export function compareBigInts (a: bigint, b: bigint): -1 | 0 | 1 {
  return a === b ? 0 : a < b ? -1 : 1
}

/** Prefix of varve's own position headers, the same for every chain. */
export const ownHeaderFamily = 'x-node-'

/** Checks a header prefix from a record (law 13: what was stored elsewhere is checked before it is trusted). */
export function isHeaderPrefix (text: string): boolean {
  return /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}-$/.test(text)
}

/** Checks a key from a header or a record; its length is bounded, because every hit carries the key. */
export function isEncryptionKey (value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,4096}$/.test(value)
}

/**
 * Returns true if a request header in lower case names the client's library, as `x-aptos-client` does; each chain
 * family has its own prefix (docs/node-behaviour.md, "Compression and connections").
 */
export function isSdkHeaderName (name: string): boolean {
  return /^x-[a-z0-9-]{1,64}-(?:client|origin-method)$/.test(name)
}

/** Suffixes of header names behind the prefix of their family (docs/node-behaviour.md, "Position headers"). */
export const headerSuffix = {
  version: 'ledger-version',
  oldestVersion: 'ledger-oldest-version',
  cursor: 'cursor',
  gasUsed: 'gas-used',
  encryptionKey: 'txn-encryption-key',
  archive: 'archival-endpoint'
} as const

// Suffixes of position headers, in the order in which nodes send them.
const positionSuffixes = [
  'chain-id',
  headerSuffix.version,
  headerSuffix.oldestVersion,
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
]

const versionNameEnd = `-${headerSuffix.version}`

/** Names of the headers of one family. */
interface FamilyNames {
  readonly position: readonly string[]
  readonly version: string
  readonly cursor: string
  readonly gasUsed: string
  readonly encryptionKey: string
}

// Caches names, because every response is read by them. The cache is bounded, because an upstream can invent families
// (law 10: nothing grows without bound).
const familyNameCache = new Map<string, FamilyNames>()
const maxCachedFamilies = 16

/** Returns the names of a family's headers. */
export function headerNamesOf (family: string): FamilyNames {
  const known = familyNameCache.get(family)
  if (known !== undefined) return known
  const names = {
    position: positionSuffixes.map(name => family + name),
    version: family + headerSuffix.version,
    cursor: family + headerSuffix.cursor,
    gasUsed: family + headerSuffix.gasUsed,
    encryptionKey: family + headerSuffix.encryptionKey
  }
  if (familyNameCache.size >= maxCachedFamilies) familyNameCache.clear()
  familyNameCache.set(family, names)
  return names
}

/**
 * Reads the position from response headers of any family. Undefined if no family is complete and valid, or if two
 * contradict each other.
 */
export function readPosition (headers: ResponseHeaders): ResponsePosition | undefined {
  const found: ResponsePosition[] = []
  for (const name in headers) {
    if (!name.endsWith(versionNameEnd)) continue
    const family = name.slice(0, -headerSuffix.version.length)
    const position = readFamilyPosition(headers, family)
    if (position === undefined) continue
    const encryptionKey = headers[headerNamesOf(family).encryptionKey]
    found.push(isEncryptionKey(encryptionKey) ? { position, family, encryptionKey } : { position, family })
  }
  // Prefers the node's family: an upstream that is itself a varve sends its own family too.
  const [first] = found.sort((a, b) => Number(a.family === ownHeaderFamily) - Number(b.family === ownHeaderFamily))
  return first !== undefined && found.every(other => isSamePosition(other.position, first.position)) ? first : undefined
}

/** Reads the positions of one upstream's responses; equal header lines give the same object again. */
export class PositionReader {
  #last: ResponsePosition | undefined
  #lines: ResponseHeaders = {}
  #decidingNames: readonly string[] = []

  /** Returns the position in response headers, as `readPosition` does. */
  read (headers: ResponseHeaders): ResponsePosition | undefined {
    if (this.#last !== undefined && this.#repeats(headers, this.#last.family)) return this.#last
    this.#last = readPosition(headers)
    if (this.#last === undefined) return undefined
    const { position, encryptionKey } = headerNamesOf(this.#last.family)
    this.#decidingNames = [...position, encryptionKey]
    this.#lines = headers
    return this.#last
  }

  #repeats (headers: ResponseHeaders, family: string): boolean {
    const last = this.#lines
    for (const name of this.#decidingNames) if (headers[name] !== last[name]) return false
    // Reads again if there is a second family, which could contradict the first, or a repeated cursor, which is
    // invalid.
    const { version, cursor } = headerNamesOf(family)
    for (const name in headers) if (name !== version && name.endsWith(versionNameEnd)) return false
    return !Array.isArray(headers[cursor])
  }
}

/** Returns true if two positions are equal. */
export function isSamePosition (a: Position, b: Position): boolean {
  return a.chainId === b.chainId &&
    a.head.version === b.head.version && a.head.timestampUsec === b.head.timestampUsec &&
    a.head.epoch === b.head.epoch && a.head.blockHeight === b.head.blockHeight &&
    a.oldest.version === b.oldest.version && a.oldest.blockHeight === b.oldest.blockHeight
}

/** Returns the headers of a position as a flat list of names and values. */
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

// Rejects times after the year 2255: every later true position would look like an older chain (law 7: chains never
// mix).
const maxTimestampUsec = 2n ** 53n

function readFamilyPosition (headers: ResponseHeaders, family: string): Position | undefined {
  // Rejects a repeated cursor, which leaves open where the listing continues.
  const names = headerNamesOf(family)
  if (Array.isArray(headers[names.cursor])) return undefined
  const [chainId, version, oldestVersion, timestampUsec, epoch, blockHeight, oldestHeight] = names.position.map(
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

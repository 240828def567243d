import { type Anchor } from '../chain/anchors.js'
import { isEncryptionKey, isHeaderPrefix, type ResponsePosition } from '../api/position.js'
import { decodeWithChecksum } from './checksummed-json.js'
import { type Heartbeat, type ReplicaMessage, type Purge } from './replica-messages.js'
import { type GenerationRecord, emptyGenerationRecord, type UpstreamChain } from '../chain/generation-record.js'

// Other versions of varve write other shapes, which count as absent (law 13: what was stored elsewhere is checked
// before it is trusted).

/** Parses the sealed record of a generation. */
export function parseGeneration (text: string): GenerationRecord | undefined {
  return parseKnown(decodeWithChecksum(text))
}

/** Parses a replica's sealed heartbeat. */
export function parseHeartbeat (text: string): Heartbeat | undefined {
  const value = decodeWithChecksum(text)
  return isObject(value) && typeof value['beat'] === 'number' && isListOf(value['releases'], isText)
    ? { beat: value['beat'], releases: value['releases'] }
    : undefined
}

/**
 * Parses an upstream's sealed chain. Records without anchors come from older versions; their number still leads to the
 * control record.
 */
export function parseUpstreamChain (text: string | null | undefined): UpstreamChain | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value)) return undefined
  const { chainId, generation } = value
  const known = value['anchors'] === undefined ? emptyGenerationRecord : parseKnown(value)
  return typeof chainId === 'number' && typeof generation === 'number' && known !== undefined
    ? { chainId, generation, ...known }
    : undefined
}

/** Parses a sealed purge. */
export function parsePurge (text: string): Purge | undefined {
  const value = decodeWithChecksum(text)
  if (
    !isObject(value) || !isText(value['id']) || !isListOf(value['keys'], isText) ||
    !isListOf(value['blocks'], isPurgedBlock)
  ) return undefined
  return {
    id: value['id'],
    keys: value['keys'],
    intervals: value['blocks'].map(({ blocks: family, version }) => ({ family, first: version, last: version }))
  }
}

/** Parses a sealed message. */
export function parseMessage (text: string): ReplicaMessage | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value)) return undefined
  const { kind, chainId, generation, stamped } = value
  if (kind === 'changed' && typeof chainId === 'number') return { kind, chainId }
  return kind === 'head' && typeof generation === 'number' && isStamped(stamped)
    ? { kind, generation, stamped }
    : undefined
}

function parseKnown (value: unknown): GenerationRecord | undefined {
  if (!isObject(value) || !isListOf(value['anchors'], isAnchor)) return undefined
  const { anchors, head } = value
  return head === undefined || isStamped(head) ? { anchors, head } : undefined
}

function isStamped (value: unknown): value is ResponsePosition {
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

function isPurgedBlock (value: unknown): value is { blocks: string, version: bigint } {
  return isObject(value) && isText(value['blocks']) && typeof value['version'] === 'bigint'
}

function isText (value: unknown): value is string {
  return typeof value === 'string'
}

function isListOf<T> (value: unknown, isItem: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(isItem)
}

function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

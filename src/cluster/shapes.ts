import { type Anchor } from '../chain/anchors.js'
import { isFamily, type StampedPosition } from '../api/position.js'
import { unseal } from './seal.js'
import {
  type KnownGeneration,
  type Message,
  nothingKnown,
  type Purge,
  type Sign,
  type UpstreamChain
} from '../chain/words.js'

// What stands in Redis may come from a version of varve that means something else by it: what has not the shape that is
// expected is as good as lost.

/** What is known of a generation, as it was sealed. */
export function generationIn (text: string): KnownGeneration | undefined {
  return knownIn(unseal(text))
}

/** A replica's sign of life. */
export function signIn (text: string): Sign | undefined {
  const value = unseal(text)
  return isObject(value) && typeof value['beat'] === 'number' && isListOf(value['releases'], isText)
    ? { beat: value['beat'], releases: value['releases'] }
    : undefined
}

/**
 * Which chain an upstream had. Older versions wrote no more than its number: that still leads to what the control key
 * says of it.
 */
export function upstreamIn (text: string | null | undefined): UpstreamChain | undefined {
  const value = unseal(text)
  if (!isObject(value)) return undefined
  const { chainId, generation } = value
  const known = value['anchors'] === undefined ? nothingKnown : knownIn(value)
  return typeof chainId === 'number' && typeof generation === 'number' && known !== undefined
    ? { chainId, generation, ...known }
    : undefined
}

/** A purge. */
export function purgeIn (text: string): Purge | undefined {
  const value = unseal(text)
  if (
    !isObject(value) || !isText(value['id']) || !isListOf(value['keys'], isText) || !isListOf(value['blocks'], isBlock)
  ) return undefined
  // Older versions know nothing of what pages have in common.
  const pages = value['pages'] ?? []
  return isListOf(pages, isRunOfEvents)
    ? { id: value['id'], keys: value['keys'], blocks: value['blocks'], pages }
    : undefined
}

/** A message. */
export function messageIn (text: string): Message | undefined {
  const value = unseal(text)
  if (!isObject(value)) return undefined
  const { kind, chainId, generation, stamped } = value
  if (kind === 'look' && typeof chainId === 'number') return { kind, chainId }
  return kind === 'head' && typeof generation === 'number' && isStamped(stamped)
    ? { kind, generation, stamped }
    : undefined
}

function knownIn (value: unknown): KnownGeneration | undefined {
  if (!isObject(value) || !isListOf(value['anchors'], isAnchor)) return undefined
  const { anchors, head } = value
  return head === undefined || isStamped(head)
    ? { anchors, head, ...(value['isUnproven'] === true && { isUnproven: true }) }
    : undefined
}

function isStamped (value: unknown): value is StampedPosition {
  if (!isObject(value) || !isObject(value['position']) || !isText(value['family']) || !isFamily(value['family'])) {
    return false
  }
  const { chainId, head, oldest } = value['position']
  return typeof chainId === 'number' && isObject(head) && isObject(oldest) &&
    (head['epoch'] === undefined || typeof head['epoch'] === 'bigint') &&
    [head['version'], head['timestampUsec'], head['blockHeight'], oldest['version'], oldest['blockHeight']].every(
      part => typeof part === 'bigint'
    )
}

function isAnchor (value: unknown): value is Anchor {
  return isObject(value) && typeof value['height'] === 'bigint' && isText(value['hash'])
}

function isBlock (value: unknown): value is Purge['blocks'][number] {
  return isObject(value) && isText(value['blocks']) && typeof value['version'] === 'bigint'
}

function isRunOfEvents (value: unknown): value is NonNullable<Purge['pages']>[number] {
  return isObject(value) && isText(value['stream']) && typeof value['first'] === 'bigint' &&
    typeof value['last'] === 'bigint'
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

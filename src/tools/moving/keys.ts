import { type StreamEvents } from '../../cache/to-share.js'
import { type Chain } from '../../chain/tracker.js'

/** What a key in Redis is one of: an entry's, and of a block's where it is filed. */
export interface EntryKey {
  /** Behind the chain and the generation. */
  readonly name: string
  readonly block: { readonly blocks: string, readonly height: string } | undefined
  /** The events that it has, where it is a page of them that is filed under its stream. */
  readonly page: StreamEvents | undefined
}

/** What the keys of a chain's generation begin with. */
export function spaceOf ({ id, generation }: Chain): string {
  return `${id}.${generation} `
}

/**
 * Reads a key of a chain's generation; undefined for another's, and for what is no entry's, such as those of the index
 * (`whole` and `half`).
 */
export function entryKeyOf (key: string, chain: Chain): EntryKey | undefined {
  const space = spaceOf(chain)
  if (!key.startsWith(space)) return undefined
  const name = key.slice(space.length)
  const [, blocks, height] = /^((?:json|bcs) blocks(?: (?!(?:whole|half) )[a-z_]+)*) ([0-9]{1,20})$/.exec(name) ?? []
  if (blocks !== undefined && height !== undefined) {
    return { name, block: { blocks: space + blocks, height }, page: undefined }
  }
  return /^(?:json|bcs) (?:\/v1\/|sha256 [\w-]{43}$)/.test(name)
    ? { name, block: undefined, page: pageIn(key) }
    : undefined
}

function pageIn (key: string): StreamEvents | undefined {
  const [, stream, start = '', limit = ''] =
    /^(\S+ json \/v1\/accounts\/0x[0-9a-f]{64}\/events\/[0-9]{1,20})\?start=([0-9]{1,20})&limit=([1-9][0-9]{0,4})$/
      .exec(key) ?? []
  return stream === undefined ? undefined : { stream, first: BigInt(start), last: BigInt(start) + BigInt(limit) - 1n }
}

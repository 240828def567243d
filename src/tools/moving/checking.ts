import { CorruptEntry, decodeStored, type Stored } from '../../cache/stored.js'
import { type Chain, contradicts } from '../../chain/tracker.js'
import { readBlockHead } from '../../api/block-head.js'
import { type KnownGeneration } from '../../chain/words.js'
import { type EntryKey, entryKeyOf } from './keys.js'
import { type Moved } from './words.js'

/** An entry that was looked at. */
export interface Checked extends EntryKey {
  readonly stored: Stored
}

/**
 * What entries are held against: the chain and generation of their keys, where that chain stood, and how long a body
 * may be.
 */
export interface Bounds {
  readonly chain: Chain
  readonly head: KnownGeneration['head']
  readonly longestBody: number
}

/**
 * Makes sure that an entry is, in every bit, what a varve of this chain wrote under its key; throws a CorruptEntry
 * where it is not.
 */
export async function check (
  { key, value }: Pick<Moved, 'key' | 'value'>,
  { chain, head, longestBody }: Bounds
): Promise<Checked> {
  const entryKey = entryKeyOf(key, chain)
  if (entryKey === undefined) throw new CorruptEntry('no key of an entry')
  const stored = await decodeStored(key, value, longestBody)
  const { stamped: { position }, range, body } = stored
  if (position.chainId !== chain.id || (head !== undefined && contradicts(position, head.position))) {
    throw new CorruptEntry('another chain')
  }
  const { block } = entryKey
  const found = block && readBlockHead(body, entryKey.name.startsWith('json') ? 'json' : 'bcs')
  // What is filed under a wrong version would be given for every version inside.
  if (
    found?.first !== range?.first || found?.last !== range?.last ||
    (block !== undefined && String(found?.height) !== block.height)
  ) throw new CorruptEntry('another block')
  return { ...entryKey, stored }
}

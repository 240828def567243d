import { setTimeout as pause } from 'node:timers/promises'
import { type SharedBlocks } from '../../cache/shared-blocks.js'
import { type SharedPages } from '../../cache/shared-pages.js'
import { CorruptEntry, keyedAnew, TooLong } from '../../cache/stored.js'
import { isToForget } from '../../cache/to-share.js'
import { type Chain } from '../../chain/tracker.js'
import { check } from './checking.js'
import { newestGeneration } from './claiming.js'
import { type ExportReader } from './export-reader.js'
import { type Inspected } from './inspecting.js'
import { entryKeyOf, spaceOf } from './keys.js'
import { type Purged } from './purged.js'
import { type Shelf } from './shelf.js'
import { type Moved } from './words.js'

/** What has come of the entries of a file so far. */
export class BroughtIn {
  written = 0
  /** Not touched: Redis has them. */
  there = 0
  /** Left out, since they were purged there, or while they were exported. */
  purged = 0
  /** Left out, since their time is over. */
  expired = 0
  /** Left out, since they are longer than the configuration keeps. */
  tooLong = 0
  bytes = 0
}

/** What becomes of an entry. */
type Outcome = Exclude<keyof BroughtIn, 'bytes'>

/** Where entries are brought in. */
export interface Target {
  readonly shelf: Shelf
  readonly index: SharedBlocks
  readonly pages: SharedPages
  readonly purged: Purged
  readonly ttlMs: number
  readonly longestBody: number
  readonly chain: Chain
}

// They are in memory at the same time.
const atOnce = 16
const lookEveryMs = 1000
// A replica deletes what is purged before it tells of it.
const lastLookAfterMs = 300

/** Writes the entries of a file that was inspected to Redis, where it has none under their keys. */
export async function bringIn (
  reader: ExportReader,
  inspected: Inspected,
  target: Target,
  brought: BroughtIn
): Promise<void> {
  const { shelf: { patience, now }, purged } = target
  let lookedAt = now()
  let entries: Moved[] = []
  const write = async (): Promise<void> => {
    const started = now()
    await Promise.all(entries.map(async entry => {
      brought[await writeOne(entry, inspected, target, brought)]++
    }))
    await patience.rest(entries.length, now() - started)
    entries = []
    if (now() - lookedAt < lookEveryMs) return
    lookedAt = now()
    await look(target)
  }
  await purged.look()
  await reader.head()
  for (let part = await reader.next(); part !== undefined; part = await reader.next()) {
    if (part.kind === 'too long') brought.tooLong++
    if (part.kind === 'entry') entries.push(part.entry)
    if (entries.length === atOnce) await write()
  }
  await write()
  await pause(lastLookAfterMs)
  await look(target)
}

async function look ({ shelf, purged, chain }: Target): Promise<void> {
  const newest = await newestGeneration(shelf, chain.id)
  if (newest === undefined) throw new Error('Redis has lost meanwhile what was known of the chain')
  if (newest !== chain.generation) {
    throw new Error(
      `replicas went over to generation ${newest} meanwhile, since everything was purged, or since their ` +
        'nodes have another chain: they do not read what was written before'
    )
  }
  await purged.look()
}

async function writeOne (
  entry: Moved,
  { head, purges }: Inspected,
  { shelf, index, pages, purged, ttlMs, longestBody, chain }: Target,
  brought: BroughtIn
): Promise<Outcome> {
  const { patience, prefix, wallClockMs } = shelf
  const from = { id: head.chainId, generation: head.generation }
  const checked = await check(entry, { chain: from, head: head.head, longestBody }).catch((error: unknown) => {
    if (error instanceof TooLong) return undefined
    throw error instanceof CorruptEntry
      ? new Error('the file has changed since it was checked: import once more')
      : error
  })
  if (checked === undefined) return 'tooLong'
  const { name, stored: { range }, block: before, page: pageBefore } = checked
  const key = spaceOf(chain) + name
  const { block, page } = entryKeyOf(key, chain) ?? {}
  if (range !== undefined && !index.takes(range)) return 'tooLong'
  if (
    purges.some(purge => isToForget(purge, { key: entry.key, range, blocks: before?.blocks, page: pageBefore })) ||
    purged.has({ key, range, blocks: block?.blocks, page })
  ) return 'purged'
  // The clock of this machine may be behind that of the other.
  const passedMs = Math.max(0, wallClockMs() - head.begunAtMs)
  const leftMs = Math.floor(Math.min(ttlMs, (entry.ttlMs ?? Infinity) - passedMs))
  if (leftMs < 1) return 'expired'
  const value = keyedAnew(entry.value, key)
  const filed = block === undefined || range === undefined
    ? undefined
    : await patience.ask('find', async client => await index.find(client, block.blocks, range.first))
  // What replicas have learned of these versions stands.
  if (filed?.blocks.some(({ height }) => height !== block?.height) === true) return 'there'
  const answer = await patience.ask('set', async client => await client.set(prefix + key, value, 'PX', leftMs, 'NX'))
  if (answer !== null) brought.bytes += value.length
  // After the entry, and also where an earlier run came no further than that.
  if (block !== undefined && range !== undefined && (filed?.blocks.length === 0 || filed?.isTorn === true)) {
    await patience.ask('index', async client => {
      await index.add(client, block.blocks, range, block.height)
    })
  }
  if (page !== undefined && answer !== null) {
    await patience.ask('index', async client => {
      await pages.add(client, page.stream, page, leftMs)
    })
  }
  return answer === null ? 'there' : 'written'
}

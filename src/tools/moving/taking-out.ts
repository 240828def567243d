import { CorruptEntry, TooLong } from '../../cache/stored.js'
import { type Chain } from '../../chain/tracker.js'
import { scan } from '../../redis/scanning.js'
import { candidatesIn } from '../../chain/candidates.js'
import { type KnownGeneration, type Purge } from '../../chain/words.js'
import { check } from './checking.js'
import { type ExportWriter } from './export-writer.js'
import { entryKeyOf, spaceOf } from './keys.js'
import { type Shelf } from './shelf.js'
import { type Moved, Refused } from './words.js'

/** What has come of an export so far. */
export class TakenOut {
  entries = 0
  /** Left out, since they are not what was written under their key, or not of this chain. */
  corrupt = 0
  /** Left out, since they are longer than the configuration allows. */
  tooLong = 0
  share = 0
}

/** What is taken out: a chain's newest generation, and how long a body may be. */
export interface Wanted {
  readonly chain: Chain
  readonly known: KnownGeneration
  readonly longestBody: number
}

// They are in memory at the same time.
const atOnce = 16

/** The generation of a chain that its replicas key by. */
export async function newestOf ({ control, patience }: Shelf, chainId: number): Promise<Omit<Wanted, 'longestBody'>> {
  const [newest] = candidatesIn(await patience.ask('control', async () => await control.read(chainId)))
  if (newest === undefined) throw new Refused(`Redis has nothing of chain ${chainId}`)
  const [generation, known] = newest
  if (known.anchors.length === 0) {
    throw new Refused(
      `nothing is known by which chain ${chainId} could be told from another of its name: have a varve run ` +
        'with a node that serves blocks by height, for some seconds'
    )
  }
  return { chain: { id: chainId, generation }, known }
}

/** Writes all that Redis has of a chain. */
export async function takeOut (shelf: Shelf, wanted: Wanted, writer: ExportWriter, taken: TakenOut): Promise<void> {
  const { prefix, patience, now, wallClockMs } = shelf
  const { chain, known: { anchors, head } } = wanted
  const purgedBefore = await purgesOf(shelf, chain)
  await writer.begin({
    chainId: chain.id,
    generation: chain.generation,
    begunAtMs: Math.floor(wallClockMs()),
    anchors,
    head
  })
  let started = now()
  for await (const { keys, share } of scan(async work => await patience.ask('find', work), prefix + spaceOf(chain))) {
    const before = taken.share
    const own = [...new Set(keys)].map(key => key.slice(prefix.length)).filter(key =>
      entryKeyOf(key, chain) !== undefined
    )
    for (let at = 0; at < own.length; at += atOnce) {
      const some = own.slice(at, at + atOnce)
      for (const entry of await Promise.all(some.map(async key => await find(shelf, wanted, key, taken)))) {
        if (entry === undefined) continue
        await writer.add(entry)
        taken.entries++
      }
      taken.share = before + (share - before) * Math.min(1, (at + atOnce) / own.length)
      await patience.rest(some.length, now() - started)
      started = now()
    }
    taken.share = share
  }
  for (const purge of await purgedSince(shelf, chain, purgedBefore)) await writer.addPurge(purge)
  await writer.end()
}

/** An entry with its life, where it is what was written there. */
async function find (
  { prefix, patience }: Shelf,
  { chain, known, longestBody }: Wanted,
  key: string,
  taken: TakenOut
): Promise<Moved | undefined> {
  const [value, ttlMs] = await patience.ask(
    'get',
    async client => await Promise.all([client.getBuffer(prefix + key), client.pttl(prefix + key)])
  )
  // It has been forgotten since it was seen.
  if (value === null || ttlMs === -2) return undefined
  try {
    await check({ key, value }, { chain, head: known.head, longestBody })
    return { key, ttlMs: ttlMs < 0 ? undefined : ttlMs, value }
  } catch (error) {
    if (!(error instanceof CorruptEntry)) throw error
    if (error instanceof TooLong) taken.tooLong++
    else taken.corrupt++
    return undefined
  }
}

async function purgesOf ({ patience, purges }: Shelf, { id }: Chain): Promise<ReadonlySet<string>> {
  return new Set((await patience.ask('control', async () => await purges.read(id))).purges.map(purge => purge.id))
}

/** What was purged since: whoever brings the rest in leaves that out, since it may have been read before. */
async function purgedSince (shelf: Shelf, { id, generation }: Chain, before: ReadonlySet<string>): Promise<Purge[]> {
  const { purges, isFull } = await shelf.patience.ask('control', async () => await shelf.purges.read(id))
  const since = purges.filter(purge => !before.has(purge.id))
  const now = await newestOf(shelf, id)
  if (now.chain.generation !== generation || (isFull && since.length === purges.length)) {
    throw new Refused('so much was purged meanwhile that nobody can say what: export once more')
  }
  return since
}

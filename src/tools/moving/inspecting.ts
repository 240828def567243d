import { CorruptEntry, TooLong } from '../../cache/stored.js'
import { type Purge } from '../../chain/words.js'
import { check } from './checking.js'
import { type ExportReader } from './export-reader.js'
import { type ExportHead, Refused } from './words.js'

/** A file that is whole, and all that is to be known of it before its entries. */
export interface Inspected {
  readonly head: ExportHead
  readonly purges: readonly Purge[]
  readonly entries: number
}

// As many as a log of purges holds, from before and after a run of them.
const mostPurges = 512

/**
 * Reads a file to its end, and refuses it where anything in it is not what was written; `onEntry` is told of each entry
 * that is.
 */
export async function inspect (reader: ExportReader, longestBody: number, onEntry: () => void): Promise<Inspected> {
  const head = await reader.head()
  const bounds = { chain: { id: head.chainId, generation: head.generation }, head: head.head, longestBody }
  const purges: Purge[] = []
  let entries = 0
  for (let part = await reader.next(); part !== undefined; part = await reader.next()) {
    if (part.kind === 'purge') purges.push(part.purge)
    if (purges.length > mostPurges) throw new Refused('the file is damaged: no export tells of so many purges')
    if (part.kind !== 'entry') continue
    await check(part.entry, bounds).catch((error: unknown) => {
      // Left out later.
      if (error instanceof TooLong) return
      throw error instanceof CorruptEntry
        ? new Refused(
          `the file is damaged: an entry of it, number ${
            entries + 1
          }, is not what was kept under its key (${error.message})`
        )
        : error
    })
    entries++
    onEntry()
  }
  return { head, purges, entries }
}

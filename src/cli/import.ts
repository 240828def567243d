import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { SharedBlocks } from '../cache/shared-blocks.js'
import { SharedPages } from '../cache/shared-pages.js'
import { SharedStore } from '../cache/shared-store.js'
import { type Config } from '../config/schema.js'
import { bringIn, BroughtIn } from '../tools/moving/bringing-in.js'
import { claim, type Claimed } from '../tools/moving/claiming.js'
import { ExportReader } from '../tools/moving/export-reader.js'
import { inspect, type Inspected } from '../tools/moving/inspecting.js'
import { Ended } from '../tools/moving/patience.js'
import { Purged } from '../tools/moving/purged.js'
import { Refused } from '../tools/moving/words.js'
import { bytesIn, counted, grouped, timeIn } from '../tools/warm/progress.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { configOf, openShelf, type OpenShelf, rateOf, type ShelfFlags } from '../tools/moving/open-shelf.js'
import { Telling, toldOf } from '../tools/telling.js'
import { witnessesOf } from '../tools/moving/witnesses.js'

/** The flags of `import`, as they were typed. */
export interface ImportFlags extends ShelfFlags {
  readonly json?: boolean
}

const mega = 1024 * 1024
// What a value has beside its body.
const valueOverhead = 1024 * 1024
const chunkBytes = 256 * 1024

/**
 * Brings the entries of a file into the Redis of replicas, when all of it was checked and its chain is known to be the
 * same.
 */
export async function importCache (flags: ImportFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const [file, ...others] = files
  if (file === undefined || others.length > 0) {
    throw new UsageError('import takes one file that varve export has written')
  }
  const perSecond = rateOf(flags)
  const config = configOf(flags, io)
  const { size } = await whole(file)
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      stopping.abort()
    })
  }
  const longestBody = config.cache.maxEntryMb * mega
  let reader = readerOf(file, longestBody)
  let before = 0
  const brought = new BroughtIn()
  let checked = 0
  const telling = new Telling({ io, isJson: flags.json === true, isOutTaken: false }, tookMs => {
    const { bytes, ...counts } = brought
    const done = Object.values(counts).reduce((sum, count) => sum + count, 0)
    return toldOf({
      entries: done > 0 ? done : checked,
      bytes: before + reader.bytes,
      share: Math.min(1, (before + reader.bytes) / (2 * size)),
      counts: { ...counts, bytesWritten: bytes }
    }, tookMs)
  })
  let shelf: OpenShelf | undefined
  try {
    const inspected = await inspect(reader, longestBody, () => {
      checked++
      if (stopping.signal.aborted) throw new Ended('ended')
    })
    const { head: { chainId } } = inspected
    if (config.chainId !== null && config.chainId !== chainId) {
      throw new Refused(`the file is of chain ${chainId}, and the configuration names chain ${config.chainId}`)
    }
    shelf = await openShelf(config, perSecond, stopping.signal)
    before = reader.bytes
    reader = readerOf(file, longestBody)
    const claimed = await claimFor(config, shelf, inspected)
    await bringIn(reader, inspected, targetOf(config, shelf, chainId, claimed.generation), brought)
    telling.stop()
    telling.end(summaryOf(inspected, brought, claimed, telling.tookMs), {
      chain: chainId,
      generation: claimed.generation,
      isNew: claimed.isNew
    })
    return exitCodes.ok
  } catch (error) {
    telling.stop()
    const { written } = brought
    if (!(error instanceof Ended)) {
      throw written === 0
        ? error
        : new Error(`${(error as Error).message}; ${stays(written)}`, { cause: error })
    }
    io.err(`varve: ended before all was brought in; ${stays(written)}\n`)
    return exitCodes.failed
  } finally {
    shelf?.link.stop()
  }
}

function stays (written: number): string {
  return `${counted(written, 'entry was written and stays', 'entries were written and stay')}: the same command goes on`
}

async function whole (file: string): Promise<{ size: number }> {
  const found = await stat(file).catch((error: Error) => {
    throw new Error(`${file} cannot be read: ${error.message}`)
  })
  // It is checked to its end before anything of it is written.
  if (!found.isFile()) throw new UsageError('import reads its file twice, so it has to be one, and no pipe')
  return found
}

function readerOf (file: string, longestBody: number): ExportReader {
  return new ExportReader(createReadStream(file, { highWaterMark: chunkBytes }), longestBody + valueOverhead)
}

async function claimFor (config: Config, shelf: OpenShelf, { head }: Inspected): Promise<Claimed> {
  const witnesses = witnessesOf(config, shelf.now)
  try {
    return await claim(shelf, head, witnesses)
  } finally {
    await Promise.all(witnesses.map(async witness => {
      await witness.close()
    }))
  }
}

function targetOf (
  config: Config,
  shelf: OpenShelf,
  chainId: number,
  generation: number
): Parameters<typeof bringIn>[2] {
  const { cache: { redis: { keyPrefix, ttlSeconds }, maxEntryMb } } = config
  const { link, now, prefix } = shelf
  const store = new SharedStore(link, {
    keyPrefix,
    ttlSeconds,
    now,
    tally: { wroteShared: () => {}, foundCorrupt: () => {} },
    isAgreed: () => true
  })
  return {
    shelf,
    index: new SharedBlocks(prefix, ttlSeconds),
    pages: new SharedPages(prefix),
    purged: new Purged(shelf, store, chainId),
    ttlMs: ttlSeconds * 1000,
    longestBody: maxEntryMb * mega,
    chain: { id: chainId, generation }
  }
}

function summaryOf (
  { head: { chainId, anchors } }: Inspected,
  { written, bytes, there, purged, expired, tooLong }: BroughtIn,
  { isNew }: Claimed,
  tookMs: number
): string {
  const leftOut = [[expired, 'whose time is over'], [purged, purged === 1 ? 'that was purged' : 'that were purged'], [
    tooLong,
    `that ${tooLong === 1 ? 'is' : 'are'} longer than is kept`
  ]] as const
  return `${counted(written, 'entry', 'entries')} of chain ${chainId} brought in, in ${timeIn(tookMs)}, ${
    bytesIn(bytes)
  }; ${counted(there, 'was', 'were')} there already\n` +
    leftOut.map(([count, which]) => count > 0 ? `  left out: ${grouped(count)} ${which}\n` : '').join('') +
    (isNew
      ? `  they are served by each varve whose node has one of the blocks that the chain is known by, from ${
        anchors[0]?.height
      } to ${anchors.at(-1)?.height}\n`
      : '')
}

import { ExportWriter } from '../tools/moving/export-writer.js'
import { Ended } from '../tools/moving/patience.js'
import { chainsIn, type Shelf } from '../tools/moving/shelf.js'
import { newestOf, TakenOut, takeOut } from '../tools/moving/taking-out.js'
import { bytesIn, counted, timeIn } from '../tools/warm/progress.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { configOf, openShelf, rateOf, type ShelfFlags } from '../tools/moving/open-shelf.js'
import { Telling, toldOf } from '../tools/telling.js'
import { writeWhole } from '../tools/moving/whole-file.js'

/** The flags of `export`, as they were typed. */
export interface ExportFlags extends ShelfFlags {
  readonly chain?: string
  readonly json?: boolean
}

const mega = 1024 * 1024

/** Writes what the Redis of replicas has of a chain to a file, or to the standard output. */
export async function exportCache (flags: ExportFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const [file = '-', ...others] = files
  if (others.length > 0) throw new UsageError(`export writes one file, not ${files.length}`)
  const isOutTaken = file === '-'
  if (isOutTaken && io.isTerminal) {
    throw new UsageError('export takes the name of a file, or goes into a pipe: a terminal cannot show it')
  }
  const perSecond = rateOf(flags)
  const config = configOf(flags, io)
  const asked = flags.chain === undefined ? config.chainId ?? undefined : chainIn(flags.chain)
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      stopping.abort()
    })
  }
  const shelf = await openShelf(config, perSecond, stopping.signal)
  const taken = new TakenOut()
  let writer: ExportWriter | undefined
  const telling = new Telling({ io, isJson: flags.json === true, isOutTaken }, tookMs => {
    const { entries, corrupt, tooLong, share } = taken
    return toldOf({ entries, bytes: writer?.bytes ?? 0, share, counts: { corrupt, tooLong } }, tookMs)
  })
  try {
    const wanted = {
      ...await newestOf(shelf, asked ?? await onlyChainIn(shelf)),
      longestBody: config.cache.maxEntryMb * mega
    }
    const write = async (put: (bytes: Buffer) => Promise<void>): Promise<void> => {
      await takeOut(shelf, wanted, writer = new ExportWriter(put), taken)
    }
    if (isOutTaken) {
      await write(async bytes => {
        await putOut(io, bytes)
      })
    } else await writeWhole(file, write)
    telling.stop()
    const { chain: { id, generation }, known: { anchors } } = wanted
    telling.end(
      `${counted(taken.entries, 'entry', 'entries')} of chain ${id} in ${timeIn(telling.tookMs)}, ${
        bytesIn(writer?.bytes ?? 0)
      }${isOutTaken ? '' : `: ${file}`}\n${leftOut(taken)}`,
      {
        chain: id,
        generation,
        newestBlock: String(anchors.at(-1)?.height),
        ...(!isOutTaken && { file })
      }
    )
    return exitCodes.ok
  } catch (error) {
    telling.stop()
    if (!(error instanceof Ended)) throw error
    io.err(
      `varve: ended before all was read${isOutTaken ? ': what was written is not whole' : '; nothing was written'}\n`
    )
    return exitCodes.failed
  } finally {
    shelf.link.stop()
  }
}

async function onlyChainIn (shelf: Shelf): Promise<number> {
  const [chain, ...others] = await chainsIn(shelf)
  if (chain === undefined) {
    throw new Error(
      'Redis has nothing that replicas of varve share; is it the right one, and the right cache.redis.keyPrefix?'
    )
  }
  if (others.length > 0) {
    throw new UsageError(`Redis has several chains: name one by --chain ${[chain, ...others].join(' or --chain ')}`)
  }
  return chain
}

function chainIn (text: string): number {
  if (!/^[0-9]{1,3}$/.test(text) || Number(text) > 255) {
    throw new UsageError(`--chain expects a whole number from 0 to 255, got ${text}`)
  }
  return Number(text)
}

async function putOut (io: Io, bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    io.out(bytes, error => {
      if (error == null) resolve()
      else reject(new Error(`the standard output cannot be written: ${error.message}`))
    })
  })
}

function leftOut ({ corrupt, tooLong }: TakenOut): string {
  return (corrupt > 0
    ? `  left out: ${
      counted(corrupt, 'that is not what was written under its key', 'that are not what was written under their keys')
    }\n`
    : '') +
    (tooLong > 0 ? `  left out: ${counted(tooLong, 'that is', 'that are')} longer than cache.maxEntryMb\n` : '')
}

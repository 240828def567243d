import { type Readable } from 'node:stream'
import { readU64 } from '../api/integer.js'
import { Asking } from '../tools/warm/asking.js'
import { Blocks } from '../tools/warm/blocks.js'
import { Lines } from '../tools/warm/lines.js'
import { bytesIn, counted, factsOf, grouped, lineOf, type Progress, timeIn } from '../tools/warm/progress.js'
import { Tally } from '../tools/warm/tally.js'
import { runWarming, type Warming } from '../tools/warm/warming.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { inputName, linesOfFiles, requireReadable, sizeOfFiles } from '../tools/lines-of-files.js'
import { Telling } from '../tools/telling.js'

/** The flags of `warm`, as they were typed. */
export interface WarmFlags {
  readonly from?: string
  readonly to?: string
  readonly transactions?: boolean
  readonly url?: string
  readonly concurrency?: string
  readonly rate?: string
  readonly skip?: string
  readonly json?: boolean
}

const defaultUrl = 'http://127.0.0.1:8080'
const mostAtOnce = 256
// As long as a read takes that is answered at all; what hangs is left for the next run.
const graceMs = 3000

/** Reads into the cache through a running varve: a range of blocks, or what files of reads ask for. */
export async function warm (flags: WarmFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const url = urlOf(flags.url ?? defaultUrl)
  const workers = wholeNumber('concurrency', flags.concurrency, 8, mostAtOnce)
  const perSecond = flags.rate === undefined ? undefined : wholeNumber('rate', flags.rate, 0, 1_000_000)
  const stopping = new AbortController()
  const warming = files.length > 0 ? await linesOf(flags, files, io.in, stopping.signal) : blocksOf(flags)
  const tally = new Tally()
  const asking = new Asking({
    url,
    connections: workers,
    perSecond,
    key: io.environment['VARVE_CLIENT_KEY'],
    tally,
    now: () => performance.now(),
    signal: stopping.signal
  })
  const cut = (): void => {
    asking.cut()
  }
  const stop = (): void => {
    if (!stopping.signal.aborted) setTimeout(cut, graceMs).unref()
    stopping.abort()
  }
  // Who asks a second time does not wait for what is under way.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      if (stopping.signal.aborted) cut()
      else stop()
    })
  }
  const progress = (tookMs: number): Progress => ({ warming, tally, tookMs })
  const telling = new Telling(
    { io, isJson: flags.json === true, isOutTaken: false },
    tookMs => ({ line: lineOf(progress(tookMs)), share: warming.share, facts: factsOf(progress(tookMs)) })
  )
  const failure = await runWarming(warming, { asking, tally, signal: stopping.signal }, workers, stop)
  telling.stop()
  await asking.close()
  const again = warming.resume && commandOf(warming.resume, flags)
  telling.end(summaryOf(progress(telling.tookMs), warming), {
    ...(warming.aside !== undefined && { aside: warming.aside }),
    ...(warming.lost !== undefined && { lost: warming.lost }),
    ...(failure !== undefined && { failure: failure.message }),
    ...(again !== undefined && { resume: again })
  })
  if (failure !== undefined) io.err(`varve: ${failure.message}\n`)
  if (again !== undefined && flags.json !== true) io.err(`varve: not all was read; go on with\n  ${again}\n`)
  return failure === undefined && again === undefined && warming.lost === undefined && tally.failures === 0
    ? exitCodes.ok
    : exitCodes.failed
}

function blocksOf ({ from, to, transactions = false, skip }: WarmFlags): Blocks {
  if (from === undefined || to === undefined) throw new UsageError('warm takes --from V and --to V, or files of reads')
  if (skip !== undefined) throw new UsageError('--skip is of files of reads')
  const range = { from: version('from', from), to: version('to', to), transactions }
  if (range.from > range.to) throw new UsageError(`--from ${range.from} is above --to ${range.to}`)
  return new Blocks(range)
}

async function linesOf (
  { from, to, transactions, skip }: WarmFlags,
  files: readonly string[],
  input: () => Readable,
  signal: AbortSignal
): Promise<Lines> {
  if (files.indexOf(inputName) !== files.lastIndexOf(inputName)) throw new UsageError(`warm takes ${inputName} once`)
  if (from !== undefined || to !== undefined || transactions !== undefined) {
    throw new UsageError('warm takes a range of blocks or files of reads, not both')
  }
  const skipped = wholeNumber('skip', skip, 0, Number.MAX_SAFE_INTEGER)
  await requireReadable(files)
  return new Lines(files, linesOfFiles(files, input, signal), skipped, await sizeOfFiles(files))
}

function summaryOf ({ warming: { noun, reads }, tally, tookMs }: Progress, { aside, lost }: Warming): string {
  const notKept = [...tally.notKept].map(([reason, count]) => `${grouped(count)} ${reason}`)
  const failed = [...tally.failed].map(([status, count]) => `${grouped(count)} with ${status}`)
  return `${counted(reads, noun.one, noun.many)} in ${timeIn(tookMs)}, ${bytesIn(tally.bytes)}: ${
    counted(tally.hits, 'was', 'were')
  } there already, ${counted(tally.stored, 'is', 'are')} kept now\n` +
    (notKept.length > 0 ? `  not kept: ${notKept.join(', ')}\n` : '') +
    (failed.length > 0 ? `  failed: ${failed.join(', ')}\n` : '') +
    [aside, lost].map(sentence => sentence === undefined ? '' : `  ${sentence}\n`).join('')
}

function commandOf (resume: readonly string[], flags: WarmFlags): string {
  const same = (['url', 'concurrency', 'rate'] as const).flatMap(name =>
    flags[name] === undefined ? [] : [`--${name}`, flags[name]]
  )
  return ['varve', 'warm', ...resume, ...same, ...(flags.json === true ? ['--json'] : [])].map(quoted).join(' ')
}

function quoted (text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll('\'', '\'\\\'\'')}'`
}

function urlOf (text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.pathname !== '/') {
    throw new UsageError('--url expects the address of a running varve, such as http://127.0.0.1:8080')
  }
  return url
}

function version (flag: string, text: string): bigint {
  const value = readU64(text)
  if (value === undefined) throw new UsageError(`--${flag} expects a ledger version, got ${text}`)
  return value
}

function wholeNumber (flag: string, text: string | undefined, otherwise: number, most: number): number {
  if (text === undefined) return otherwise
  if (!/^[0-9]{1,16}$/.test(text) || Number(text) > most || (flag !== 'skip' && Number(text) === 0)) {
    throw new UsageError(`--${flag} expects a whole number${flag === 'skip' ? '' : ` from 1 to ${most}`}, got ${text}`)
  }
  return Number(text)
}

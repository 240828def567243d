import { type Readable } from 'node:stream'
import { readU64 } from '../api/integer.js'
import { WarmClient } from '../tools/warm/warm-client.js'
import { VersionRangeJob } from '../tools/warm/version-range-job.js'
import { RequestFileJob } from '../tools/warm/request-file-job.js'
import {
  formatBytes,
  formatCount,
  progressFactsOf,
  groupDigits,
  progressLineOf,
  type Progress,
  formatDuration
} from '../tools/warm/format-progress.js'
import { WarmCounts } from '../tools/warm/warm-counts.js'
import { runWarmJob, type WarmJob } from '../tools/warm/warm-job.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { stdinName, readInputLines, requireReadable, totalSizeOf } from '../tools/input-lines.js'
import { ProgressReporter } from '../tools/progress-reporter.js'

/** Unparsed flags of `warm`. */
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
const maxConcurrency = 256
// Covers the time of a normal read; slower reads are left to the next run.
const graceMs = 3000

/** Fills the cache through a running varve, from a block range or from request files. */
export async function warm (flags: WarmFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const url = urlOf(flags.url ?? defaultUrl)
  const workers = wholeNumberFlag('concurrency', flags.concurrency, 8, maxConcurrency)
  const perSecond = flags.rate === undefined ? undefined : wholeNumberFlag('rate', flags.rate, 0, 1_000_000)
  const stopping = new AbortController()
  const job = files.length > 0 ? await requestFileJobOf(flags, files, io.in, stopping.signal) : blockRangeJobOf(flags)
  const counts = new WarmCounts()
  const client = new WarmClient({
    url,
    connections: workers,
    perSecond,
    key: io.environment['VARVE_CLIENT_KEY'],
    counts,
    now: () => performance.now(),
    signal: stopping.signal
  })
  const cut = (): void => {
    client.abort()
  }
  const stop = (): void => {
    if (!stopping.signal.aborted) setTimeout(cut, graceMs).unref()
    stopping.abort()
  }
  // A second signal exits without waiting for requests in flight.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      if (stopping.signal.aborted) cut()
      else stop()
    })
  }
  const progress = (tookMs: number): Progress => ({ job, counts, tookMs })
  const reporter = new ProgressReporter(
    { io, isJson: flags.json === true },
    tookMs => ({ line: progressLineOf(progress(tookMs)), share: job.share, facts: progressFactsOf(progress(tookMs)) })
  )
  const failure = await runWarmJob(job, { client, counts, signal: stopping.signal }, workers, stop)
  reporter.stop()
  await client.close()
  const resumeCommand = job.resume && resumeCommandOf(job.resume, flags)
  reporter.finish(summaryOf(progress(reporter.tookMs), job), {
    ...(job.skippedNote !== undefined && { aside: job.skippedNote }),
    ...(job.unreadNote !== undefined && { lost: job.unreadNote }),
    ...(failure !== undefined && { failure: failure.message }),
    ...(resumeCommand !== undefined && { resume: resumeCommand })
  })
  if (failure !== undefined) io.err(`varve: ${failure.message}\n`)
  if (resumeCommand !== undefined && flags.json !== true) {
    io.err(`varve: not all was read; go on with\n  ${resumeCommand}\n`)
  }
  return failure === undefined && resumeCommand === undefined && job.unreadNote === undefined && counts.failures === 0
    ? exitCodes.ok
    : exitCodes.failed
}

function blockRangeJobOf ({ from, to, transactions = false, skip }: WarmFlags): VersionRangeJob {
  if (from === undefined || to === undefined) throw new UsageError('warm takes --from V and --to V, or files of reads')
  if (skip !== undefined) throw new UsageError('--skip is of files of reads')
  const range = { from: versionFlag('from', from), to: versionFlag('to', to), transactions }
  if (range.from > range.to) throw new UsageError(`--from ${range.from} is above --to ${range.to}`)
  return new VersionRangeJob(range)
}

async function requestFileJobOf (
  { from, to, transactions, skip }: WarmFlags,
  files: readonly string[],
  input: () => Readable,
  signal: AbortSignal
): Promise<RequestFileJob> {
  if (files.indexOf(stdinName) !== files.lastIndexOf(stdinName)) throw new UsageError(`warm takes ${stdinName} once`)
  if (from !== undefined || to !== undefined || transactions !== undefined) {
    throw new UsageError('warm takes a range of blocks or files of reads, not both')
  }
  const skipped = wholeNumberFlag('skip', skip, 0, Number.MAX_SAFE_INTEGER)
  await requireReadable(files)
  return new RequestFileJob(files, readInputLines(files, input, signal), skipped, await totalSizeOf(files))
}

function summaryOf ({ job: { noun, reads }, counts, tookMs }: Progress, { skippedNote, unreadNote }: WarmJob): string {
  const notStored = [...counts.notStored].map(([reason, count]) => `${groupDigits(count)} ${reason}`)
  const failed = [...counts.failed].map(([status, count]) => `${groupDigits(count)} with ${status}`)
  return `${formatCount(reads, noun.one, noun.many)} in ${formatDuration(tookMs)}, ${formatBytes(counts.bytes)}: ${
    formatCount(counts.hits, 'was', 'were')
  } cached already, ${formatCount(counts.stored, 'is', 'are')} cached now\n` +
    (notStored.length > 0 ? `  not cacheable: ${notStored.join(', ')}\n` : '') +
    (failed.length > 0 ? `  failed: ${failed.join(', ')}\n` : '') +
    [skippedNote, unreadNote].map(sentence => sentence === undefined ? '' : `  ${sentence}\n`).join('')
}

function resumeCommandOf (resume: readonly string[], flags: WarmFlags): string {
  const same = (['url', 'concurrency', 'rate'] as const).flatMap(name =>
    flags[name] === undefined ? [] : [`--${name}`, flags[name]]
  )
  return ['varve', 'warm', ...resume, ...same, ...(flags.json === true ? ['--json'] : [])].map(shellQuoted).join(' ')
}

function shellQuoted (text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll('\'', '\'\\\'\'')}'`
}

function urlOf (text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.pathname !== '/') {
    throw new UsageError('--url expects the address of a running varve, such as http://127.0.0.1:8080')
  }
  return url
}

function versionFlag (flag: string, text: string): bigint {
  const value = readU64(text)
  if (value === undefined) throw new UsageError(`--${flag} expects a ledger version, got ${text}`)
  return value
}

function wholeNumberFlag (flag: string, text: string | undefined, defaultValue: number, max: number): number {
  if (text === undefined) return defaultValue
  if (!/^[0-9]{1,16}$/.test(text) || Number(text) > max || (flag !== 'skip' && Number(text) === 0)) {
    throw new UsageError(`--${flag} expects a whole number${flag === 'skip' ? '' : ` from 1 to ${max}`}, got ${text}`)
  }
  return Number(text)
}

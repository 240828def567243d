import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { readU64 } from '../api/integer.js'
import { BlockRange } from '../tools/warm/block-range.js'
import { RequestLines, sizeOfInput } from '../tools/warm/request-lines.js'
import { WarmClient } from '../tools/warm/warm-client.js'
import { WarmCounts } from '../tools/warm/warm-counts.js'
import { type WarmInput, WarmJob } from '../tools/warm/warm-job.js'

/** Unparsed flags of `warm`. */
export interface WarmFlags {
  readonly from?: string
  readonly to?: string
  readonly transactions?: boolean
  readonly url?: string
  readonly concurrency?: string
  readonly rate?: string
  readonly skip?: string
}

// Covers the time of a normal read; slower reads are left to the next run.
const graceMs = 3000
// Frequent enough for a moving bar, and infrequent enough for a log.
const barEveryMs = 200
const lineEveryMs = 10_000
const clearRest = '\x1b[K'

/** Fills the cache through a running varve, from a range of blocks or from lines. */
export async function warm (flags: WarmFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const concurrency = wholeNumberFlag('concurrency', flags.concurrency, 1, 256) ?? 8
  const stopping = new AbortController()
  const counts = new WarmCounts()
  const client = new WarmClient({
    url: urlOf(flags.url ?? 'http://127.0.0.1:8080'),
    connections: concurrency,
    perSecond: wholeNumberFlag('rate', flags.rate, 1, 1_000_000),
    key: io.environment['VARVE_CLIENT_KEY'],
    onRetry: () => counts.countRetry(),
    now: () => performance.now(),
    signal: stopping.signal
  })
  const input = await inputOf(flags, files, io, client, stopping.signal)
  const job = new WarmJob(input, counts)
  const stop = (): void => {
    if (!stopping.signal.aborted) {
      setTimeout(() => client.abort(), graceMs).unref()
    }
    stopping.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      // A second signal exits without waiting for requests in flight.
      if (stopping.signal.aborted) client.abort()
      else stop()
    })
  }
  const startedAt = performance.now()
  const progress = setInterval(() => {
    const line = counts.progressLine(input.noun, job.share, performance.now() - startedAt)
    io.out(io.isTerminal ? `\r${line}${clearRest}` : `${line}\n`)
  }, io.isTerminal ? barEveryMs : lineEveryMs)
  const failure = await job.run(concurrency, stopping.signal, stop)
  clearInterval(progress)
  await client.close()
  io.out(
    `${io.isTerminal ? `\r${clearRest}` : ''}${counts.summary(input.noun, performance.now() - startedAt)}${
      input.notes.map(note => `  ${note}\n`).join('')
    }`
  )
  if (failure !== undefined) io.err(`varve: ${failure.message}\n`)
  if (job.resume !== undefined) {
    io.err(`varve: not all was read; go on with\n  ${commandOf(job.resume, flags)}\n`)
  }
  return failure === undefined && job.resume === undefined && input.isWhole && !counts.hasFailures
    ? exitCodes.ok
    : exitCodes.failed
}

async function inputOf (
  { from, to, transactions, skip }: WarmFlags,
  [file, ...others]: readonly string[],
  io: Io,
  client: WarmClient,
  signal: AbortSignal
): Promise<WarmInput> {
  if (others.length > 0) throw new UsageError('warm takes one file; cat joins several: cat FILE... | varve warm -')
  if (file === undefined) {
    if (from === undefined || to === undefined) {
      throw new UsageError('warm takes --from V and --to V, or a file of reads')
    }
    if (skip !== undefined) throw new UsageError('--skip is of a file of reads')
    const span = { from: versionFlag('from', from), to: versionFlag('to', to), transactions: transactions === true }
    if (span.from > span.to) throw new UsageError(`--from ${from} is above --to ${to}`)
    return new BlockRange(span, client)
  }
  if (from !== undefined || to !== undefined || transactions !== undefined) {
    throw new UsageError('warm takes a range of blocks or a file of reads, not both')
  }
  const skipped = wholeNumberFlag('skip', skip, 0, Number.MAX_SAFE_INTEGER) ?? 0
  return new RequestLines({ name: file, skip: skipped, sizeBytes: await sizeOfInput(file) }, io.in, client, signal)
}

function commandOf (resume: readonly string[], flags: WarmFlags): string {
  const same = (['url', 'concurrency', 'rate'] as const).flatMap(name => {
    const value = flags[name]
    return value === undefined ? [] : [`--${name}`, value]
  })
  return ['varve', 'warm', ...resume, ...same].map(shellQuoted).join(' ')
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

function wholeNumberFlag (flag: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined
  if (!/^[0-9]{1,16}$/.test(text) || Number(text) < min || Number(text) > max) {
    throw new UsageError(`--${flag} expects a whole number from ${min} to ${max}, got ${text}`)
  }
  return Number(text)
}

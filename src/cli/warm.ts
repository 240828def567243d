import { setMaxListeners } from 'node:events'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { readU64 } from '../api/integer.js'
import { formatBytes, formatCount, formatDuration, groupDigits } from './format.js'
import { headerValueIn, type ProxyResponse, WarmClient } from './warm-client.js'
import { blocksOf, linesOf, type WarmInput, type WarmItem } from './warm-input.js'

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
const barLength = 20
// Reads that may wait for a connection each, so that a slow read does not hold up those behind it.
const readsPerConnection = 4

/** Fills the cache through a running varve, from a range of blocks or from lines. */
export async function warm (flags: WarmFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const concurrency = wholeNumberFlag('concurrency', flags.concurrency, 1, 256) ?? 8
  const stopping = new AbortController()
  // Each read that pauses listens for the end of the run.
  setMaxListeners(0, stopping.signal)
  const counts = new WarmCounts()
  const client = new WarmClient({
    url: urlOf(flags.url ?? 'http://127.0.0.1:8080'),
    connections: concurrency,
    perSecond: wholeNumberFlag('rate', flags.rate, 1, 1_000_000),
    key: io.environment['VARVE_CLIENT_KEY'],
    onRetry: () => counts.countRetry(),
    signal: stopping.signal
  })
  const input = await inputOf(flags, files, io, client, stopping.signal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      // A second signal exits without waiting for requests in flight.
      if (stopping.signal.aborted) client.abort()
      stopping.abort()
    })
  }
  stopping.signal.addEventListener('abort', () => setTimeout(() => client.abort(), graceMs).unref())
  const progress = setInterval(() => {
    const line = counts.progressLine(input.noun)
    io.out(io.isTerminal ? `\r${line}${clearRest}` : `${line}\n`)
  }, io.isTerminal ? barEveryMs : lineEveryMs)
  const { failure, resume } = await run(input, counts, concurrency * readsPerConnection, stopping)
  clearInterval(progress)
  await client.close()
  const notes = input.notes.map(note => `  ${note}\n`).join('')
  io.out(`${io.isTerminal ? `\r${clearRest}` : ''}${counts.summary(input.noun)}${notes}`)
  if (failure !== undefined) io.err(`varve: ${failure.message}\n`)
  if (resume !== undefined) io.err(`varve: not all was read; go on with\n  ${commandOf(resume, flags)}\n`)
  return resume === undefined && input.isWhole && !counts.hasFailures ? exitCodes.ok : exitCodes.failed
}

/** Fetches all reads; returns the first failure, and the arguments that continue if anything is left. */
async function run (
  input: WarmInput,
  counts: WarmCounts,
  maxWaiting: number,
  stopping: AbortController
): Promise<{ readonly failure: Error | undefined, readonly resume: readonly string[] | undefined }> {
  const failures: Error[] = []
  let { resume } = input
  let isContiguous = true
  const fail = (error: unknown): undefined => {
    failures.push(error as Error)
    stopping.abort()
  }
  // Takes responses in order, so that a run continues behind the last read before which all are done.
  const take = async (item: WarmItem, fetching: Promise<ProxyResponse | undefined>): Promise<void> => {
    const response = await fetching
    isContiguous &&= response !== undefined
    if (response === undefined) return
    counts.count(response)
    if (!isContiguous) return
    counts.share = item.share
    resume = item.resumeAfter(response) ?? resume
  }
  const waiting: Array<Promise<void>> = []
  let last = Promise.resolve()
  try {
    for await (const item of input.items()) {
      const fetching = item.fetch().catch(fail)
      last = last.then(async () => await take(item, fetching))
      if (waiting.push(last) >= maxWaiting) await waiting.shift()
      if (stopping.signal.aborted) break
    }
  } catch (error) {
    fail(error)
  }
  await last
  return { failure: failures[0], resume: isContiguous && !stopping.signal.aborted ? undefined : resume }
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
    return blocksOf(span, client)
  }
  if (from !== undefined || to !== undefined || transactions !== undefined) {
    throw new UsageError('warm takes a range of blocks or a file of reads, not both')
  }
  const skipped = wholeNumberFlag('skip', skip, 0, Number.MAX_SAFE_INTEGER) ?? 0
  return await linesOf({ name: file, skip: skipped }, io.in, client, signal)
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

/** Counts the outcomes of a run, and prints them. */
class WarmCounts {
  /** Share of the run from 0 to 1 that is done; undefined if the total is unknown. */
  share: number | undefined
  readonly #startedAtMs = performance.now()
  #reads = 0
  #hits = 0
  #stored = 0
  #retries = 0
  #bytes = 0
  readonly #notStored = new Map<string, number>()
  readonly #failed = new Map<string, number>()

  get hasFailures (): boolean {
    return this.#failed.size > 0
  }

  /** Counts a request repeated after overload or a connection failure. */
  countRetry (): void {
    this.#retries++
  }

  /** Counts a response by its status and Cache-Status (RFC 9211). */
  count (response: ProxyResponse): void {
    const { status, body } = response
    const cacheStatus = headerValueIn(response, 'cache-status')
    this.#reads++
    this.#bytes += body.length
    if (status >= 400) increment(this.#failed, `with ${status}`)
    else if (cacheStatus === undefined) increment(this.#notStored, 'no varve there')
    else if (/; hit\b/.test(cacheStatus)) this.#hits++
    // A collapsed response shares a fetch whose first request stores it.
    else if (/; (?:stored|collapsed)\b/.test(cacheStatus)) this.#stored++
    else increment(this.#notStored, /; detail=(\w+)/.exec(cacheStatus)?.[1] ?? 'moving')
  }

  /** Returns a line of progress: bar and share where the total is known, amount, rate and time left. */
  progressLine (noun: string): string {
    const { share } = this
    const tookMs = performance.now() - this.#startedAtMs
    const parts = [
      formatCount(this.#reads, noun),
      `${groupDigits(Math.round(this.#reads * 1000 / tookMs))}/s`,
      `${groupDigits(this.#hits)} already cached`,
      `${groupDigits(this.#stored)} missed`,
      formatBytes(this.#bytes),
      ...(share !== undefined && share > 0 ? [`${formatDuration(tookMs / share - tookMs)} left`] : []),
      ...this.#troubles
    ].join(', ')
    if (share === undefined) return parts
    const bar = '#'.repeat(Math.floor(share * barLength)).padEnd(barLength, '.')
    return `[${bar}] ${String(Math.floor(share * 100)).padStart(3)} %, ${parts}`
  }

  /** Returns the sentences for the end of a run. */
  summary (noun: string): string {
    const took = formatDuration(performance.now() - this.#startedAtMs)
    const hits = formatCount(this.#hits, 'was', 'were')
    const stored = formatCount(this.#stored, 'is', 'are')
    return [
      `${formatCount(this.#reads, noun)} in ${took}, ${formatBytes(this.#bytes)}: ${hits} cached already, ` +
      `${stored} cached now`,
      ...this.#troubles
    ].join('\n  ') + '\n'
  }

  get #troubles (): string[] {
    return [
      ...(this.#notStored.size > 0 ? [`not cacheable: ${listOf(this.#notStored)}`] : []),
      ...(this.hasFailures ? [`failed: ${listOf(this.#failed)}`] : []),
      ...(this.#retries > 0 ? [`retried: ${groupDigits(this.#retries)}`] : [])
    ]
  }
}

function increment (counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function listOf (counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([key, count]) => `${groupDigits(count)} ${key}`).join(', ')
}

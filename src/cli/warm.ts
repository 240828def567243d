import { setMaxListeners } from 'node:events'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { readU64 } from '../api/integer.js'
import { formatBytes, formatCount, formatDuration, groupDigits, wholeNumberFlag } from './format.js'
import { headerValueIn, type ProxyResponse, WarmClient } from './warm-client.js'
import { blocksOf, linesOf, type ResumeFlags, type WarmItem } from './warm-input.js'

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
// Redraws the bar of a terminal often, and adds a line to a log rarely.
const barEveryMs = 200
const lineEveryMs = 10_000
const clearRest = '\x1b[K'
const barLength = 20
// Reads that may wait for each connection, so that a slow read does not delay later reads.
const readsPerConnection = 4

/** Fills the cache through a running varve, from a range of blocks or from lines. */
export async function warm (flags: WarmFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const concurrency = wholeNumberFlag('concurrency', flags.concurrency, 1, 256) ?? 8
  const perSecond = wholeNumberFlag('rate', flags.rate, 1, 1_000_000)
  const stopping = new AbortController()
  // Allows any number of listeners, because each read that pauses listens for the end of the run.
  setMaxListeners(0, stopping.signal)
  const url = urlOf(flags.url ?? 'http://127.0.0.1:8080')
  const client = new WarmClient(url, concurrency, perSecond, io.environment['VARVE_CLIENT_KEY'], stopping.signal)
  const counts = new WarmCounts(client)
  const leaveOut = (reason: string, place?: string): void => {
    counts.leaveOut(reason, place !== undefined)
    if (place !== undefined) io.err(`varve: ${place} is ${reason}\n`)
  }
  const items = await itemsOf(flags, files, io, client, stopping.signal, leaveOut)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    io.onSignal(signal, () => {
      // A second signal exits without waiting for requests in flight.
      if (stopping.signal.aborted) client.abort()
      stopping.abort()
    })
  }
  stopping.signal.addEventListener('abort', () => setTimeout(() => client.abort(), graceMs).unref())
  const progress = setInterval(() => {
    io.out(io.isTerminal ? `\r${counts.progressLine}${clearRest}` : `${counts.progressLine}\n`)
  }, io.isTerminal ? barEveryMs : lineEveryMs)
  const { failure, resume } = await run(items, counts, concurrency * readsPerConnection, stopping)
  clearInterval(progress)
  await client.close()
  io.out(`${io.isTerminal ? `\r${clearRest}` : ''}${counts.summary}`)
  if (failure !== undefined) io.err(`varve: ${failure.message}\n`)
  if (resume !== undefined) {
    io.err(`varve: not all was read; go on with\n  ${commandOf({ ...flags, ...resume }, files)}\n`)
  }
  return resume === undefined && !counts.hasFailures ? exitCodes.ok : exitCodes.failed
}

/** Fetches all reads; returns the first failure, and the flags that continue if anything is left. */
async function run (
  items: AsyncGenerator<WarmItem>,
  counts: WarmCounts,
  maxWaiting: number,
  stopping: AbortController
): Promise<{ readonly failure: Error | undefined, readonly resume: ResumeFlags | undefined }> {
  const failures: Error[] = []
  let resume: ResumeFlags = {}
  let isContiguous = true
  const fail = (error: unknown): undefined => {
    failures.push(error as Error)
    stopping.abort()
  }
  // Takes responses in order, so that the next run continues behind the last read that has no gap before it.
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
    for await (const item of items) {
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

async function itemsOf (
  { from, to, transactions = false, skip }: WarmFlags,
  [file, ...others]: readonly string[],
  io: Io,
  client: WarmClient,
  signal: AbortSignal,
  leaveOut: (reason: string, place?: string) => void
): Promise<AsyncGenerator<WarmItem>> {
  if (others.length > 0) throw new UsageError('warm takes one file; cat joins several: cat FILE... | varve warm -')
  if (file !== undefined) {
    if (from !== undefined || to !== undefined || transactions) {
      throw new UsageError('warm takes a range of blocks or a file of reads, not both')
    }
    const skipped = wholeNumberFlag('skip', skip, 0, Number.MAX_SAFE_INTEGER) ?? 0
    return await linesOf(file, skipped, io.in, client, signal, leaveOut)
  }
  if (from === undefined || to === undefined) throw new UsageError('warm takes --from V and --to V, or a file of reads')
  if (skip !== undefined) throw new UsageError('--skip is of a file of reads')
  const [first, last] = [versionFlag('from', from), versionFlag('to', to)]
  if (first > last) throw new UsageError(`--from ${from} is above --to ${to}`)
  return blocksOf(first, last, transactions, client)
}

function commandOf (flags: WarmFlags, files: readonly string[]): string {
  const words = Object.entries(flags).flatMap(([name, value]) => value === true ? [`--${name}`] : [`--${name}`, value])
  return ['varve', 'warm', ...words, ...files].map(shellQuoted).join(' ')
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

/** Counts the outcomes of a run, and prints them. */
class WarmCounts {
  /** Share of the run from 0 to 1 that is done; undefined if the total is unknown. */
  share: number | undefined
  /** True if something was not read. */
  hasFailures = false
  readonly #client: Pick<WarmClient, 'retries'>
  readonly #startedAtMs = performance.now()
  #reads = 0
  #hits = 0
  #stored = 0
  #bytes = 0
  readonly #leftOut = new Map<string, number>()

  constructor (client: Pick<WarmClient, 'retries'>) {
    this.#client = client
  }

  /** Counts a response by its status and Cache-Status (RFC 9211). */
  count (response: ProxyResponse): void {
    const { status, body } = response
    const cacheStatus = headerValueIn(response, 'cache-status')
    this.#reads++
    this.#bytes += body.length
    if (status >= 400) this.leaveOut(`status ${status}`, true)
    else if (cacheStatus === undefined) this.leaveOut('no varve there')
    else if (/; hit\b/.test(cacheStatus)) this.#hits++
    // A collapsed response shares a fetch whose first request stores it.
    else if (/; (?:stored|collapsed)\b/.test(cacheStatus)) this.#stored++
    else this.leaveOut(/; detail=(\w+)/.exec(cacheStatus)?.[1] ?? 'moving')
  }

  /** Counts a read that is not cached afterwards, by its reason. */
  leaveOut (reason: string, isFailure = false): void {
    this.hasFailures ||= isFailure
    this.#leftOut.set(reason, (this.#leftOut.get(reason) ?? 0) + 1)
  }

  /** Line of progress: bar and share if the total is known, amount, rate and time left. */
  get progressLine (): string {
    const { share } = this
    const tookMs = performance.now() - this.#startedAtMs
    const parts = [
      formatCount(this.#reads, 'read'),
      `${groupDigits(Math.round(this.#reads * 1000 / tookMs))}/s`,
      ...(share !== undefined && share > 0 ? [`${formatDuration(tookMs / share - tookMs)} left`] : []),
      ...this.#details
    ].join(', ')
    if (share === undefined) return parts
    const bar = '#'.repeat(Math.floor(share * barLength)).padEnd(barLength, '.')
    return `[${bar}] ${String(Math.floor(share * 100)).padStart(3)} %, ${parts}`
  }

  /** Sentences for the end of a run. */
  get summary (): string {
    const took = formatDuration(performance.now() - this.#startedAtMs)
    return `${[`${formatCount(this.#reads, 'read')} in ${took}`, ...this.#details].join('\n  ')}\n`
  }

  get #details (): string[] {
    const { retries } = this.#client
    const reasons = [...this.#leftOut].map(([reason, count]) => `${groupDigits(count)} ${reason}`)
    return [
      `${groupDigits(this.#hits)} cached already`,
      `${groupDigits(this.#stored)} cached now`,
      formatBytes(this.#bytes),
      ...(reasons.length > 0 ? [`not cached: ${reasons.join(', ')}`] : []),
      ...(retries > 0 ? [`retried: ${groupDigits(retries)}`] : [])
    ]
  }
}

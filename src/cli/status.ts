import { setTimeout } from 'node:timers/promises'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'
import { type TierStatus } from '../cache/tier.js'
import { type statusOf } from '../http/status.js'
import { type AdminFlags, AdminUnreachableError, callAdmin, parseObject } from './admin.js'
import { formatCount, formatDuration, groupDigits, inColumns } from './format.js'

const watchMs = 2000
const clearScreen = '\u001b[2J\u001b[H'

/** Prints the state of a running varve, once or until a stop signal. */
export async function status (flags: AdminFlags, io: Io): Promise<ExitCode> {
  if (flags.watch !== true) {
    const { text, code } = await readStatus(flags, io)
    io.out(text)
    return code
  }
  const stopping = new Promise<'stop'>(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) io.onSignal(signal, () => resolve('stop'))
  })
  for (;;) {
    const { text } = await readStatus(flags, io).catch((error: unknown) => {
      // A restart of varve must not end the watch.
      if (error instanceof AdminUnreachableError) return { text: `varve: ${error.message}\n` }
      throw error
    })
    io.out((io.isTerminal ? clearScreen : '') + text)
    if (await Promise.race([stopping, setTimeout(watchMs, 'again')]) === 'stop') return exitCodes.ok
  }
}

async function readStatus (flags: AdminFlags, io: Io): Promise<{ text: string, code: ExitCode }> {
  const { status, text } = await callAdmin(flags, io, '/status.json')
  const state = status === 200 ? parseObject(text) : undefined
  if (state === undefined) throw new AdminUnreachableError(`/status.json is no status of varve (HTTP ${status})`)
  return {
    text: flags.json === true ? `${JSON.stringify(state)}\n` : statusScreenOf(state),
    code: state['ready'] === true ? exitCodes.ok : exitCodes.failed
  }
}

// A varve of another release may lack any member.
type Loose<T> = T extends readonly unknown[] ? T :
  T extends object ? { readonly [Key in keyof T]?: Loose<T[Key]> } :
  T
type Status = Loose<ReturnType<typeof statusOf>> & { readonly workers?: readonly unknown[] }
type Recent = Status['recent']

const upstreamColumns = [
  ['name', 'upstream'],
  ['state', 'state'],
  ['version', 'version'],
  ['lagSeconds', 'lag s'],
  ['latencyMs', 'ms'],
  ['p95Ms', 'p95 ms'],
  ['inFlight', 'in flight'],
  ['waiting', 'queued'],
  ['reason', '']
] as const

/** Prints /status.json as one screen of text. */
export function statusScreenOf (json: unknown): string {
  const status = json as Status
  const { varve = {}, chain, position, follow, tiers = {}, recent, upstreams = [], workers } = status
  return [
    `${['varve', varve.version].filter(Boolean).join(' ')} on ${varve.host ?? 'this machine'}: ${stateOf(status)}`,
    ...(status.degraded ?? []).map(text => `  ! ${text}`),
    '',
    ...rows([
      ['workers', workers && String(workers.length)],
      ['chain', chain && `${chain.id ?? '?'}, space ${chain.space ?? '?'}`],
      ['version', position && positionText(position)],
      ['moved', position?.headAgeMs === undefined ? undefined : `${formatDuration(position.headAgeMs)} ago`],
      ['following', follow && followText(follow)],
      ...Object.entries(tiers).map(([name, tier = {}]) => [name, tierText(tier)] as const),
      ['requests', requestsText(recent)],
      ['hit rate', hitRateText(recent)]
    ]).map(line => `  ${line}`),
    '',
    ...table(upstreams).map(line => `  ${line}`)
  ].map(line => `${line}\n`).join('')
}

function stateOf ({ ready, level, draining }: Status): string {
  return `${ready === true ? 'ready' : 'not ready'}${draining === true ? ', draining' : ''}${
    level === undefined ? '' : `, ${level}`
  }`
}

function positionText ({ version, oldestVersion, blockHeight, ageMs = 0 }: NonNullable<Status['position']>): string {
  return `${groupDigits(version)} (block ${groupDigits(blockHeight)}), oldest ${groupDigits(oldestVersion)}, updated ${
    formatDuration(ageMs)
  } ago`
}

function followText ({ mode, state, reason, version, lagSeconds }: NonNullable<Status['follow']>): string {
  const head = version && `at ${groupDigits(version)}`
  const lag = lagSeconds === undefined ? undefined : `lag ${lagSeconds.toFixed(1)} s`
  return [`${mode ?? ''}: ${state ?? ''}`, reason, head, lag].filter(part => part !== undefined).join(', ')
}

function tierText ({ entries, bytes = 0, maxBytes, state, reason }: Loose<TierStatus>): string {
  const limit = maxBytes === undefined ? '' : ` of ${megabytes(maxBytes)}`
  const size = entries === undefined
    ? undefined
    : `${formatCount(entries, 'entry', 'entries')}, ${megabytes(bytes)}${limit}`
  return [state, size, reason].filter(part => part !== undefined).join(', ')
}

// Prints the unit of cache.memory.maxMb.
function megabytes (bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MB`
}

function sumOf (recent: Recent, isCounted: (outcome: string) => boolean): number {
  return Object.entries(recent?.outcomes ?? {}).filter(([name]) => isCounted(name)).flatMap(([, steps = []]) => steps)
    .reduce((sum, count) => sum + count, 0)
}

function requestsText (recent: Recent): string | undefined {
  const steps = Math.max(0, ...Object.values(recent?.outcomes ?? {}).map(({ length }) => length))
  if (steps === 0) return undefined
  const rejected = sumOf(recent, name => name === 'limited' || name === 'rejected')
  const time = formatDuration(steps * (recent?.stepMs ?? 0))
  return `${groupDigits(sumOf(recent, () => true))} in ${time}, ${groupDigits(rejected)} rejected, ${
    groupDigits(failedOf(recent))
  } failed`
}

function hitRateText (recent: Recent): string | undefined {
  const hits = sumOf(recent, name => name.startsWith('hit_'))
  const reads = hits + sumOf(recent, name => name === 'miss' || name === 'collapsed')
  const failed = failedOf(recent)
  const without = failed === 0 ? '' : `, without ${formatCount(failed, 'failed request')}`
  return reads === 0 ? undefined : `${Math.floor(hits / reads * 1000) / 10} %${without}`
}

// Counts failed requests, which are neither hits nor misses: a hit rate of 100 % would hide them.
function failedOf (recent: Recent): number {
  return sumOf(recent, name => name === 'unavailable')
}

function rows (pairs: ReadonlyArray<readonly [string, string | undefined]>): string[] {
  return inColumns(pairs.flatMap(([name, text]) => text === undefined ? [] : [[name, text]]))
}

function table (upstreams: NonNullable<Status['upstreams']>): string[] {
  return inColumns([
    upstreamColumns.map(([, title]) => title),
    ...upstreams.map(upstream =>
      upstreamColumns.map(([key]) =>
        `${upstream[key] ?? ''}${key === 'state' && upstream.cordoned ? ', cordoned' : ''}`
      )
    )
  ])
}

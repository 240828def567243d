import { formatCount, formatDuration, groupDigits } from '../format.js'

/** Parts of /status.json that the screen shows; a varve of another release may lack some. */
interface Status {
  readonly ready?: boolean
  readonly level?: string
  readonly degraded?: readonly string[]
  readonly draining?: boolean
  readonly varve?: { readonly version?: string, readonly mode?: string, readonly host?: string }
  readonly chain?: { readonly id?: number | string, readonly space?: string }
  readonly position?: {
    readonly version: string,
    readonly oldestVersion: string,
    readonly blockHeight: string,
    readonly ageMs: number,
    readonly headAgeMs?: number
  }
  readonly follow?: {
    readonly mode?: string,
    readonly state?: string,
    readonly reason?: string,
    readonly version?: string,
    readonly lagSeconds?: number
  }
  readonly upstreams?: ReadonlyArray<Readonly<Record<string, string | number | boolean | undefined>>>
  readonly tiers?: Readonly<
    Record<string, {
      readonly entries?: number,
      readonly bytes?: number,
      readonly maxBytes?: number,
      readonly state?: string,
      readonly reason?: string
    }>
  >
  readonly recent?: {
    readonly stepMs?: number,
    readonly outcomes?: Readonly<Record<string, readonly number[]>>
  }
  readonly workers?: readonly unknown[]
}

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
      ['mode', varve.mode],
      ['workers', workers === undefined ? undefined : String(workers.length)],
      ['chain', chain?.id === undefined ? undefined : `${chain.id}, space ${chain.space ?? '?'}`],
      ['version', position && positionText(position)],
      ['moved', position?.headAgeMs === undefined ? undefined : `${formatDuration(position.headAgeMs)} ago`],
      ['following', follow && followText(follow)],
      ...Object.entries(tiers).map(([name, tier]) => [name, tierText(tier)] as const),
      ['requests', requestsText(recent)],
      ['hit rate', hitRateText(recent)]
    ]),
    '',
    ...table(upstreams)
  ].map(line => `${line.trimEnd()}\n`).join('')
}

function stateOf ({ ready, level, draining }: Status): string {
  return `${ready === true ? 'ready' : 'not ready'}${draining === true ? ', draining' : ''}${
    level === undefined ? '' : `, ${level}`
  }`
}

function positionText ({ version, oldestVersion, blockHeight, ageMs }: NonNullable<Status['position']>): string {
  return `${groupDigits(BigInt(version))} (block ${groupDigits(BigInt(blockHeight))}), oldest ${
    groupDigits(BigInt(oldestVersion))
  }, updated ${formatDuration(ageMs)} ago`
}

function followText ({ mode, state, reason, version, lagSeconds }: NonNullable<Status['follow']>): string {
  const head = version === undefined ? undefined : `at ${groupDigits(BigInt(version))}`
  const lag = lagSeconds === undefined ? undefined : `lag ${lagSeconds.toFixed(1)} s`
  return [`${mode ?? ''}: ${state ?? ''}`, reason, head, lag].filter(part => part !== undefined).join(', ')
}

function tierText ({ entries, bytes, maxBytes, state, reason }: NonNullable<Status['tiers']>[string]): string {
  const size = entries === undefined
    ? undefined
    : `${formatCount(entries, 'entry', 'entries')}, ${megabytes(bytes ?? 0)}${
      maxBytes === undefined ? '' : ` of ${megabytes(maxBytes)}`
    }`
  return [state, size, reason].filter(part => part !== undefined).join(', ')
}

// The unit of cache.memory.maxMb.
function megabytes (bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MB`
}

function sumOf (recent: Status['recent'], isCounted: (outcome: string) => boolean): number {
  return Object.entries(recent?.outcomes ?? {}).filter(([name]) => isCounted(name)).flatMap(([, steps]) => steps)
    .reduce((sum, count) => sum + count, 0)
}

function requestsText (recent: Status['recent']): string | undefined {
  const steps = Math.max(0, ...Object.values(recent?.outcomes ?? {}).map(({ length }) => length))
  if (steps === 0) return undefined
  const rejected = sumOf(recent, name => name === 'limited' || name === 'rejected')
  return `${groupDigits(sumOf(recent, () => true))} in ${formatDuration(steps * (recent?.stepMs ?? 0))}, ${
    groupDigits(rejected)
  } rejected, ${groupDigits(failedOf(recent))} failed`
}

function hitRateText (recent: Status['recent']): string | undefined {
  const hits = sumOf(recent, name => name.startsWith('hit_'))
  const reads = hits + sumOf(recent, name => name === 'miss' || name === 'collapsed')
  const failed = failedOf(recent)
  const without = failed === 0 ? '' : `, without ${formatCount(failed, 'failed request')}`
  return reads === 0 ? undefined : `${Math.floor(hits / reads * 1000) / 10} %${without}`
}

// Failed requests are neither hits nor misses, which a hit rate of 100 % would hide.
function failedOf (recent: Status['recent']): number {
  return sumOf(recent, name => name === 'unavailable')
}

function rows (pairs: ReadonlyArray<readonly [string, string | undefined]>): string[] {
  const shown = pairs.filter(([, text]) => text !== undefined)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, text = '']) => `  ${name.padEnd(width)}  ${text}`)
}

function stateOfUpstream ({ state, cordoned }: NonNullable<Status['upstreams']>[number]): string {
  return `${state ?? ''}${cordoned === true ? ', cordoned' : ''}`
}

function table (upstreams: NonNullable<Status['upstreams']>): string[] {
  const lines = [
    upstreamColumns.map(([, title]) => title as string),
    ...upstreams.map(upstream =>
      upstreamColumns.map(([key]) => key === 'state' ? stateOfUpstream(upstream) : String(upstream[key] ?? ''))
    )
  ]
  const widths = upstreamColumns.map((_, at) => Math.max(...lines.map(line => line[at]?.length ?? 0)))
  return lines.map(line => `  ${line.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ')}`)
}

import { type Tally } from './tally.js'
import { type Warming } from './warming.js'

/** How far a run is. */
export interface Progress {
  readonly warming: Pick<Warming, 'noun' | 'reads' | 'share'>
  readonly tally: Tally
  readonly tookMs: number
}

const barLength = 20

/** One line: how much is done, how fast, what of it was kept already, and how long the rest will take. */
export function lineOf ({ warming, tally, tookMs }: Progress): string {
  return runLine(warming.share, tookMs, [
    counted(warming.reads, warming.noun.one, warming.noun.many),
    `${grouped(Math.round(perSecond(warming.reads, tookMs)))}/s`,
    `${grouped(tally.hits)} there already`,
    `${grouped(tally.stored)} missed`,
    bytesIn(tally.bytes),
    ...(tally.failures > 0 ? [`${grouped(tally.failures)} failed`] : []),
    ...(tally.retries > 0 ? [`${grouped(tally.retries)} asked again`] : [])
  ])
}

/** What a long run tells of itself: how much is done, where that is known, and how long the rest will take. */
export function runLine (share: number | undefined, tookMs: number, parts: readonly string[]): string {
  if (share === undefined) return parts.join(', ')
  const left = leftMs(share, tookMs)
  return `${String(Math.floor(share * 100)).padStart(3)} %, ${parts.join(', ')}${
    left === undefined ? '' : `, ${timeIn(left)} left`
  }`
}

/** A line of a run with a bar before it. */
export function withBar (share: number | undefined, line: string): string {
  if (share === undefined) return line
  const full = Math.floor(share * barLength)
  return `[${'#'.repeat(full)}${'.'.repeat(barLength - full)}] ${line}`
}

/** The same for a program. */
export function factsOf ({ warming: { noun, reads, share }, tally, tookMs }: Progress): object {
  const left = share === undefined ? undefined : leftMs(share, tookMs)
  return {
    [noun.many]: reads,
    hits: tally.hits,
    stored: tally.stored,
    notKept: Object.fromEntries(tally.notKept),
    failed: Object.fromEntries(tally.failed),
    retries: tally.retries,
    bytes: tally.bytes,
    seconds: Math.round(tookMs) / 1000,
    perSecond: Math.round(perSecond(reads, tookMs) * 10) / 10,
    ...(share !== undefined && { share }),
    ...(left !== undefined && { secondsLeft: Math.round(left / 1000) })
  }
}

/** A time in words. */
export function timeIn (ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** A number of bytes in words. */
export function bytesIn (bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let at = 0
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000
  return `${at === 0 ? bytes : bytes.toFixed(1)} ${units[at]}`
}

/** A number with blanks between its thousands, as no language minds. */
export function grouped (count: number | bigint): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ' ')
}

/** A number with its noun. */
export function counted (count: number | bigint, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${Number(count) === 1 ? one : many}`
}

/** How many a second. */
export function perSecond (reads: number, tookMs: number): number {
  return tookMs > 0 ? reads * 1000 / tookMs : 0
}

function leftMs (share: number, tookMs: number): number | undefined {
  return share > 0 ? tookMs / share - tookMs : undefined
}

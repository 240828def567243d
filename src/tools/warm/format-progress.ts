import { type WarmCounts } from './warm-counts.js'
import { type WarmJob } from './warm-job.js'

/** Progress of a warm run. */
export interface Progress {
  readonly job: Pick<WarmJob, 'noun' | 'reads' | 'share'>
  readonly counts: WarmCounts
  readonly tookMs: number
}

const barLength = 20

/** Formats progress as one line: amount, rate, hits and remaining time. */
export function progressLineOf ({ job: { noun, reads, share }, counts, tookMs }: Progress): string {
  const parts = [
    formatCount(reads, noun.one, noun.many),
    `${groupDigits(Math.round(perSecond(reads, tookMs)))}/s`,
    `${groupDigits(counts.hits)} already cached`,
    `${groupDigits(counts.stored)} missed`,
    formatBytes(counts.bytes),
    ...(counts.failures > 0 ? [`${groupDigits(counts.failures)} failed`] : []),
    ...(counts.retries > 0 ? [`${groupDigits(counts.retries)} retried`] : [])
  ].join(', ')
  if (share === undefined) return parts
  const left = remainingMs(share, tookMs)
  return `${String(Math.floor(share * 100)).padStart(3)} %, ${parts}${
    left === undefined ? '' : `, ${formatDuration(left)} left`
  }`
}

/** Adds a progress bar before a line. */
export function prependProgressBar (share: number | undefined, line: string): string {
  if (share === undefined) return line
  const full = Math.floor(share * barLength)
  return `[${'#'.repeat(full)}${'.'.repeat(barLength - full)}] ${line}`
}

/** Formats progress for programs. */
export function progressFactsOf ({ job: { noun, reads, share }, counts, tookMs }: Progress): object {
  const left = share === undefined ? undefined : remainingMs(share, tookMs)
  return {
    [noun.many]: reads,
    hits: counts.hits,
    stored: counts.stored,
    notStored: Object.fromEntries(counts.notStored),
    failed: Object.fromEntries(counts.failed),
    retries: counts.retries,
    bytes: counts.bytes,
    seconds: Math.round(tookMs) / 1000,
    perSecond: Math.round(perSecond(reads, tookMs) * 10) / 10,
    ...(share !== undefined && { share }),
    ...(left !== undefined && { secondsLeft: Math.round(left / 1000) })
  }
}

/** Formats a duration. */
export function formatDuration (ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Formats a number of bytes. */
export function formatBytes (bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let at = 0
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000
  return `${at === 0 ? bytes : bytes.toFixed(1)} ${units[at]}`
}

/** Groups digits by blanks, which are unambiguous in every language. */
export function groupDigits (count: number | bigint): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ' ')
}

/** Formats a number with its noun. */
export function formatCount (count: number | bigint, one: string, many = `${one}s`): string {
  return `${groupDigits(count)} ${Number(count) === 1 ? one : many}`
}

function perSecond (reads: number, tookMs: number): number {
  return tookMs > 0 ? reads * 1000 / tookMs : 0
}

function remainingMs (share: number, tookMs: number): number | undefined {
  return share > 0 ? tookMs / share - tookMs : undefined
}

import { UsageError } from '../app/io.js'

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
export function groupDigits (count: number | string = '?'): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ' ')
}

/** Formats a number with its noun. */
export function formatCount (count: number, one: string, many = `${one}s`): string {
  return `${groupDigits(count)} ${count === 1 ? one : many}`
}

/** Aligns the columns of a table, two blanks apart. */
export function inColumns (rows: ReadonlyArray<readonly string[]>): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map(row => row[at]?.length ?? 0))) ?? []
  return rows.map(row => row.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ').trimEnd())
}

/** Parses the text of a flag that takes a number; undefined without the flag. */
export function wholeNumberFlag (flag: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined
  if (!/^[0-9]{1,16}$/.test(text) || Number(text) < min || Number(text) > max) {
    throw new UsageError(`--${flag} expects a whole number from ${min} to ${max}, got ${text}`)
  }
  return Number(text)
}

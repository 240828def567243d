// Formats numbers, times and texts of upstreams.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const three = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })
const maxLength = 120

// Control characters and direction marks, which could reorder or hide text.
const invisible = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** Shortens a text of an upstream, in whole characters. */
export function short (text, max = maxLength) {
  const characters = [...String(text ?? '').slice(0, 2 * max + 2).replace(invisible, '\ufffd')]
  return characters.length <= max ? characters.join('') : `${characters.slice(0, max).join('')}…`
}

/** Shortens and isolates a text within a sentence, so that right-to-left text does not reorder it. */
export function isolate (text, max) {
  return `\u2068${short(text, max)}\u2069`
}

/** Adds up numbers. */
export function sum (numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}

/** Groups the digits of a number, or of a u64 given as text. */
export function grouped (count) {
  if (typeof count === 'number') return Number.isFinite(count) ? whole.format(count) : 'unknown'
  return /^\d{1,20}$/.test(count ?? '') ? count.replace(/\B(?=(\d{3})+$)/g, ',') : 'unknown'
}

/** Formats a count with its noun. */
export function counted (count, one, many = `${one}s`) {
  return `${grouped(count)} ${String(count) === '1' ? one : many}`
}

/** Formats a share, rounded down so that only all is 100 %, and undefined without a whole; little is never 0 %. */
export function percent (part, all) {
  if (!(all > 0)) return undefined
  const share = Math.floor(part / all * 1000) / 10
  return part > 0 && share === 0 ? '<\u00a00.1\u00a0%' : `${tenth.format(share)}\u00a0%`
}

/** Formats a rate per second. */
export function perSecond (rate) {
  if (rate > 0 && rate < 0.1) return '< 0.1'
  return rate < 100 ? tenth.format(rate) : whole.format(rate)
}

/** Formats a duration. */
export function duration (ms) {
  if (typeof ms !== 'number' || !(ms >= 0)) return 'unknown'
  if (ms < 1000) return `${three.format(ms)}\u00a0ms`
  return `${three.format(ms / 1000)}\u00a0s`
}

const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000], ['second', 1000]]

/** Formats an age in its largest whole unit. */
export function age (ms) {
  if (typeof ms !== 'number' || Number.isNaN(ms)) return 'unknown'
  if (ms < 1000) return 'less than a second'
  const [unit, size] = units.find(([, least]) => ms >= least)
  return counted(Math.floor(ms / size), unit)
}

/** Formats an age as a time in the past. */
export function ago (ms) {
  return ms < 1000 ? 'just now' : `${age(ms)} ago`
}

/** Formats a size in bytes. */
export function bytes (count) {
  if (typeof count !== 'number' || !Number.isFinite(count)) return 'unknown'
  const [size, unit] = [[1024 ** 3, 'GB'], [1024 ** 2, 'MB'], [1024, 'KB']].find(([least]) => count >= least) ??
    [1, 'bytes']
  return size === 1 ? counted(count, 'byte') : `${three.format(count / size)}\u00a0${unit}`
}

/** Formats a u64 of Unix microseconds as a date; undefined outside the range of Date. */
export function dateOf (usec) {
  if (!/^\d{1,20}$/.test(usec ?? '')) return undefined
  const date = new Date(Number(BigInt(usec) / 1000n))
  return Number.isNaN(date.getTime()) ? undefined : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** Formats the local time of day. */
export function clockTime (date) {
  return date.toTimeString().slice(0, 8)
}

/** Parses a u64; undefined if the text is none. */
export function parseU64 (text) {
  return /^\d{1,20}$/.test(text ?? '') ? BigInt(text) : undefined
}

// What numbers, times and foreign texts look like to a person.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const three = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })
const longest = 120

// What turns the direction of what follows, or is nothing that one could see: \p{Cc} and the marks of direction.
const unseen = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** A foreign text, of which so much is shown as a person reads; whole characters, so that none is cut in two. */
export function short (text, most = longest) {
  const characters = [...String(text ?? '').slice(0, 2 * most + 2).replace(unseen, '\ufffd')]
  return characters.length <= most ? characters.join('') : `${characters.slice(0, most).join('')}…`
}

/** The same within a sentence, of which it turns no other word around. */
export function within (text, most) {
  return `\u2068${short(text, most)}\u2069`
}

/** A count, which is a number, or a u64, which is text since a number would lose its last digits. */
export function grouped (count) {
  if (typeof count === 'number') return Number.isFinite(count) ? whole.format(count) : 'unknown'
  return /^\d{1,20}$/.test(count ?? '') ? count.replace(/\B(?=(\d{3})+$)/g, ',') : 'unknown'
}

/** A count with what is counted. */
export function counted (count, one, many = `${one}s`) {
  return `${grouped(count)} ${String(count) === '1' ? one : many}`
}

/**
 * A share, where there is anything to have a share of: what is not quite all is never called all, nor what is not quite
 * nothing nothing.
 */
export function percent (part, all) {
  if (!(all > 0)) return undefined
  const share = Math.floor(part / all * 1000) / 10
  return part > 0 && share === 0 ? '<\u00a00.1\u00a0%' : `${tenth.format(share)}\u00a0%`
}

/** How many come in a second. */
export function perSecond (rate) {
  if (rate > 0 && rate < 0.1) return '< 0.1'
  return rate < 100 ? tenth.format(rate) : whole.format(rate)
}

/** A time that something takes. */
export function duration (ms) {
  if (typeof ms !== 'number' || !(ms >= 0)) return 'unknown'
  if (ms < 1000) return `${three.format(ms)}\u00a0ms`
  return `${three.format(ms / 1000)}\u00a0s`
}

const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000], ['second', 1000]]

/** How long ago, or for how long, in words. */
export function age (ms) {
  if (typeof ms !== 'number' || Number.isNaN(ms)) return 'unknown'
  if (ms < 1000) return 'less than a second'
  const [unit, size] = units.find(([, least]) => ms >= least)
  return counted(Math.floor(ms / size), unit)
}

/** The same of something that was. */
export function ago (ms) {
  return ms < 1000 ? 'just now' : `${age(ms)} ago`
}

/** A size in the memory of a machine. */
export function bytes (count) {
  if (typeof count !== 'number' || !Number.isFinite(count)) return 'unknown'
  const [size, unit] = [[1024 ** 3, 'GB'], [1024 ** 2, 'MB'], [1024, 'KB']].find(([least]) => count >= least) ??
    [1, 'bytes']
  return size === 1 ? counted(count, 'byte') : `${three.format(count / size)}\u00a0${unit}`
}

/** When a block was made, of microseconds that no number holds; undefined where no calendar has it. */
export function dateOf (usec) {
  if (!/^\d{1,20}$/.test(usec ?? '')) return undefined
  const date = new Date(Number(BigInt(usec) / 1000n))
  return Number.isNaN(date.getTime()) ? undefined : `${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** A time of this day. */
export function clockTime (date) {
  return date.toTimeString().slice(0, 8)
}

/** A u64 as it can be reckoned with; undefined where it is none. */
export function big (text) {
  return /^\d{1,20}$/.test(text ?? '') ? BigInt(text) : undefined
}

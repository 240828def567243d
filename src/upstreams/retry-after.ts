const usualMs = 1000

/**
 * For how long a Retry-After asks to be left alone, in seconds or until a date (RFC 9110, section 10.2.3); for a moment
 * where it says nothing that is known. The answer's own date counts for now, where it bears one: clocks differ.
 */
export function restOf (retryAfter: string | undefined, date: string | undefined, wallClockMs: number): number {
  const text = retryAfter?.trim() ?? ''
  if (/^[0-9]{1,9}$/.test(text)) return Number(text) * 1000
  const untilMs = timeOf(text)
  return untilMs === undefined ? usualMs : Math.max(0, untilMs - (timeOf(date) ?? wallClockMs))
}

// A date of HTTP begins with the name of a day; Date would make one of almost anything.
function timeOf (text: string | undefined): number | undefined {
  const ms = text !== undefined && /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(ms) ? undefined : ms
}

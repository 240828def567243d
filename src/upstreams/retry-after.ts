const defaultBackoffMs = 1000

/**
 * Reads Retry-After in seconds or as a date, relative to the response's Date because clocks differ (RFC 9110, section
 * 10.2.3); default 1 s.
 */
export function readRetryAfterMs (
  retryAfter: string | undefined,
  date: string | undefined,
  wallClockMs: number
): number {
  const text = retryAfter?.trim() ?? ''
  if (/^[0-9]{1,9}$/.test(text)) return Number(text) * 1000
  const untilMs = readHttpDateMs(text)
  return untilMs === undefined ? defaultBackoffMs : Math.max(0, untilMs - (readHttpDateMs(date) ?? wallClockMs))
}

// Requires a day name, since Date.parse accepts almost any text.
function readHttpDateMs (text: string | undefined): number | undefined {
  const ms = text !== undefined && /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(ms) ? undefined : ms
}

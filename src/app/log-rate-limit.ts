/**
 * Limits lines of one kind (law 10: nothing grows without bound). The returned function returns the number of
 * suppressed lines since the last logged one; undefined suppresses this line.
 */
export function logRateLimit (now: () => number, { lines, perMs }: LogRate): () => number | undefined {
  let beganAtMs = -Infinity
  let logged = 0
  let suppressed = 0
  return () => {
    if (now() - beganAtMs >= perMs) [beganAtMs, logged] = [now(), 0]
    if (++logged > lines) {
      suppressed++
      return undefined
    }
    const count = suppressed
    suppressed = 0
    return count
  }
}

/** Highest number of lines in a time. */
export interface LogRate {
  readonly lines: number
  readonly perMs: number
}
